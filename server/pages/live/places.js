// What is told of the place that the map's cursor stands on; more of it is asked for where the server alone knows.

import { say } from "./dom.js";
import { positions } from "./words.js";

const PAUSE_MILLISECONDS = 120; // a cursor that runs over the map asks nothing

/** The line below the map. */
export class Places {
  #told;
  #headers;
  /** @type {number | undefined} */
  #timer;
  /** @type {string} */
  #shown = "";

  /**
   * @param {HTMLElement} told
   * @param {() => Record<string, string>} headers
   */
  constructor(told, headers) {
    this.#told = told;
    this.#headers = headers;
  }

  clear() {
    clearTimeout(this.#timer);
    this.#shown = "";
    say(this.#told, "");
  }

  /**
   * @param {string} text
   * @param {number | null} unit To be asked for, or null.
   */
  show(text, unit) {
    if (text === this.#shown) return;
    clearTimeout(this.#timer);
    this.#shown = text;
    say(this.#told, text);
    if (unit !== null) this.#timer = setTimeout(() => this.#ask(text, unit), PAUSE_MILLISECONDS);
  }

  /**
   * @param {string} text
   * @param {number} unit
   */
  async #ask(text, unit) {
    const response = await fetch(`ledger/units/${unit}`, { headers: this.#headers(), cache: "no-store" }).catch(
      () => null,
    );
    if (!response?.ok || this.#shown !== text) return;
    const known = await response.json();
    if (this.#shown === text) say(this.#told, [text, ...more(known)].join(" "));
  }
}

/**
 * What the server knows beyond the snapshots.
 * @param {{state: string, positions: [number, number] | null, text?: string}} unit
 */
function more({ state, positions: range, text }) {
  const said = [];
  if (state === "cached" && range) said.push(`It holds ${positions(...range)} of what was asked.`);
  if (text) said.push(`“${text}”`);
  return said;
}
