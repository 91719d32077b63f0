// What an answer took, in three lines that stay where they are: the prompt, the answer, the time.

import { make, say } from "./dom.js";
import { count } from "./words.js";

/** @import {Making} from "./making.js" */

const NONE = "–";

/** The lines. Each number is there as soon as it is known. */
export class Took {
  element;
  #prompt = new Line("Prompt", ["cached", "computed"]);
  #answer = new Line("Answer", ["drafted", "computed", "fell"]);
  #time = make("span", { class: "time" }, "waiting");

  /** @param {HTMLElement} steps What shows the steps. */
  constructor(steps) {
    const time = make("div", {}, make("dt", {}, "Time"), make("dd", {}, this.#time, steps));
    this.element = make("dl", { class: "took" }, this.#prompt.element, this.#answer.element, time);
  }

  /**
   * @param {number} tokens
   * @param {number | null} cached Null while it is not known.
   */
  prompt(tokens, cached) {
    const parts = cached === null ? [] : [`${count(cached)} cached`, `${count(tokens - cached)} computed`];
    this.#prompt.show(tokens, parts);
  }

  /**
   * @param {number} tokens
   * @param {Making | null} making What its steps tell, or null if they tell nothing.
   */
  answer(tokens, making) {
    const { kept, computed, fell } = making?.tally(tokens) ?? { kept: 0, computed: 0, fell: 0 };
    const parts = [`${count(kept)} guessed`, `${count(computed)} computed`, `${count(fell)} fell`];
    this.#answer.show(tokens, kept + computed + fell > 0 ? parts : []);
  }

  /** @param {string} text */
  time(text) {
    say(this.#time, text);
  }
}

/** A total and its parts, each with the sign that the page has for it. */
class Line {
  element;
  #total = make("span", { class: "number" }, NONE);
  #parts;

  /**
   * @param {string} name
   * @param {string[]} kinds
   */
  constructor(name, kinds) {
    this.#parts = kinds.map((kind) => make("span", { class: `part ${kind}` }, NONE));
    this.element = make("div", {}, make("dt", {}, name), make("dd", {}, this.#total, ...this.#parts));
  }

  /**
   * @param {number} total
   * @param {string[]} parts None while they are not known.
   */
  show(total, parts) {
    say(this.#total, count(total));
    this.#parts.forEach((part, index) => say(part, parts[index] ?? NONE));
  }
}
