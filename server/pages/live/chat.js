// The chat: a conversation with the model that is served, and what each answer took.

import { answerTo, bodyOf, Refused } from "./asking.js";
import { make, say } from "./dom.js";
import { Turn } from "./turn.js";

/** @import {Message, Wishes} from "./asking.js" */

/**
 * @typedef {object} Parts
 * @property {HTMLElement} talk
 * @property {HTMLElement} none
 * @property {HTMLElement} told
 * @property {HTMLFormElement} form
 * @property {HTMLTextAreaElement} question
 * @property {HTMLButtonElement} send
 * @property {HTMLButtonElement} stop
 * @property {HTMLButtonElement} anew
 * @property {Record<"temperature" | "maxTokens" | "seed" | "alternatives", HTMLInputElement>} fields
 * @property {HTMLTextAreaElement} prediction
 */

const NEAR_END = 24; // pixels from the end of the conversation that count as being there

/** One conversation at a time. */
export class Chat {
  #parts;
  #options;
  /** @type {Message[]} */
  #messages = [];
  /** @type {AbortController | null} */
  #running = null;
  /** @type {Turn | null} */
  #turn = null;

  /**
   * @param {Parts} parts
   * @param {object} options
   * @param {() => Record<string, string>} options.headers
   * @param {() => Promise<string>} options.model
   * @param {() => void} options.onKey Called when the server asks for a key.
   * @param {(request: string) => void} options.onSteps
   */
  constructor(parts, options) {
    this.#parts = parts;
    this.#options = options;
    parts.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#ask();
    });
    parts.question.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      parts.form.requestSubmit();
    });
    parts.stop.addEventListener("click", () => this.#running?.abort());
    parts.anew.addEventListener("click", () => this.#begin());
  }

  /** The server has moved on: what did that do to the answer that is coming? */
  look() {
    if (this.#running) this.#turn?.look();
  }

  #begin() {
    this.#running?.abort();
    this.#messages = [];
    this.#parts.talk.replaceChildren();
    this.#parts.none.hidden = false;
    say(this.#parts.told, "");
    this.#parts.question.focus();
  }

  async #ask() {
    const question = this.#parts.question.value.trim();
    if (!question || this.#running) return;
    const asked = make("p", { class: "asked" }, question);
    const turn = (this.#turn = new Turn(this.#options));
    const messages = this.#messages;
    this.#parts.none.hidden = true;
    this.#parts.talk.append(asked, turn.element);
    this.#parts.talk.scrollTop = this.#parts.talk.scrollHeight;
    this.#parts.question.value = "";
    this.#busy(new AbortController());
    const content = await this.#run(turn, [...messages, { role: "user", content: question }]);
    if (content === null && !this.#parts.question.value) this.#parts.question.value = question;
    if (content !== null) messages.push({ role: "user", content: question }, { role: "assistant", content });
    this.#busy(null);
    await turn.explain();
  }

  /**
   * @param {Turn} turn
   * @param {Message[]} messages
   * @returns {Promise<string | null>} The answer as far as it came, or null if it never began.
   */
  async #run(turn, messages) {
    const { headers, model, onKey } = this.#options;
    const { signal } = /** @type {AbortController} */ (this.#running);
    try {
      const body = bodyOf(await model(), messages, this.#wishes());
      for await (const piece of answerTo(body, headers(), signal)) {
        this.#staying(() => turn.add(piece));
      }
      turn.end();
      say(this.#parts.told, turn.said);
    } catch (error) {
      if (signal.aborted) turn.end("stopped");
      else turn.fail(error instanceof Error ? error.message : String(error));
      if (error instanceof Refused && error.status === 401) onKey();
    }
    return turn.content || turn.size ? turn.content : null;
  }

  /** @returns {Wishes} */
  #wishes() {
    const { temperature, maxTokens, seed, alternatives } = this.#parts.fields;
    const number = (/** @type {HTMLInputElement} */ field) => (field.value.trim() ? field.valueAsNumber : null);
    return {
      temperature: number(temperature),
      maxTokens: number(maxTokens),
      seed: number(seed),
      alternatives: alternatives.checked,
      prediction: this.#parts.prediction.value,
    };
  }

  /** @param {AbortController | null} running */
  #busy(running) {
    this.#running = running;
    this.#parts.send.hidden = running !== null;
    this.#parts.stop.hidden = running === null;
    if (running) say(this.#parts.told, "Waiting for the answer.");
  }

  /**
   * Change the conversation; whoever was at its end stays there, and whoever reads above is left alone.
   * @param {() => void} change
   */
  #staying(change) {
    const { talk } = this.#parts;
    const atEnd = talk.scrollHeight - talk.scrollTop - talk.clientHeight < NEAR_END;
    change();
    if (atEnd) talk.scrollTop = talk.scrollHeight;
  }
}
