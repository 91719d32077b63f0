// The chat: a conversation with the model that is served, and what each answer took.

import { Answer } from "./answer.js";
import { answerTo, bodyOf, Refused } from "./asking.js";
import { make, say } from "./dom.js";
import { originsOf } from "./story.js";
import { readStories } from "./steps.js";
import { count, counted, seconds } from "./words.js";

/** @import {Message, Usage, Wishes} from "./asking.js" */

/**
 * @typedef {object} Parts
 * @property {HTMLElement} talk
 * @property {HTMLElement} told
 * @property {HTMLFormElement} form
 * @property {HTMLTextAreaElement} question
 * @property {HTMLButtonElement} send
 * @property {HTMLButtonElement} stop
 * @property {HTMLButtonElement} anew
 * @property {Record<"temperature" | "maxTokens" | "seed" | "alternatives", HTMLInputElement>} fields
 * @property {HTMLTextAreaElement} prediction
 */

const TRIES = 4; // for the steps of an answer, which are told a moment after it
const PAUSE_MILLISECONDS = 250;

/** One conversation at a time. */
export class Chat {
  #parts;
  #options;
  /** @type {Message[]} */
  #messages = [];
  /** @type {AbortController | null} */
  #running = null;

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

  #begin() {
    this.#running?.abort();
    this.#messages = [];
    this.#parts.talk.replaceChildren();
    say(this.#parts.told, "");
    this.#parts.question.focus();
  }

  async #ask() {
    const question = this.#parts.question.value.trim();
    if (!question || this.#running) return;
    const asked = make("p", { class: "asked" }, question);
    const turn = new Turn(this.#options.onSteps);
    const messages = this.#messages;
    this.#parts.talk.append(asked, turn.element);
    this.#parts.question.value = "";
    this.#busy(new AbortController());
    const content = await this.#run(turn, [...messages, { role: "user", content: question }]);
    if (content === null && !this.#parts.question.value) this.#parts.question.value = question;
    if (content !== null) messages.push({ role: "user", content: question }, { role: "assistant", content });
    this.#busy(null);
    this.#scroll();
    await turn.explain(this.#options.headers());
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
        turn.add(piece);
        this.#scroll();
      }
      say(this.#parts.told, `Answered with ${counted(turn.size, "token")}.`);
    } catch (error) {
      if (signal.aborted) turn.end("Stopped.");
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
    this.#parts.talk.setAttribute("aria-busy", String(running !== null));
    if (running) say(this.#parts.told, "Waiting for the answer.");
  }

  #scroll() {
    const { talk } = this.#parts;
    talk.scrollTop = talk.scrollHeight;
  }
}

/** One answer in the conversation, with what it took. */
class Turn {
  element;
  content = "";
  #thought = make("p", { class: "thought" });
  #answer = new Answer();
  #took = make("p", { class: "took" });
  #failure = make("p", { class: "failure", role: "alert" });
  #steps = make("button", { type: "button" }, "Steps");
  #id = "";
  #began = performance.now();
  #first = 0;
  /** @type {Usage | null} */
  #usage = null;

  /** @param {(request: string) => void} onSteps */
  constructor(onSteps) {
    this.#thought.hidden = this.#failure.hidden = this.#steps.hidden = true;
    this.#steps.addEventListener("click", () => onSteps(this.#id));
    const foot = make("div", { class: "foot" }, this.#took, this.#steps);
    this.element = make("article", {}, this.#thought, this.#answer.element, this.#failure, foot);
  }

  get size() {
    return this.#usage?.completion_tokens ?? this.#answer.size;
  }

  /** @param {import("./asking.js").Piece} piece */
  add({ id, text, thought, scored, usage }) {
    this.#id = id;
    this.#steps.hidden = false;
    this.content += text;
    if (thought) this.#thought.append(thought);
    this.#thought.hidden = !this.#thought.textContent;
    this.#answer.add(text, scored);
    if (!this.#first && this.#answer.size) this.#first = performance.now();
    if (usage) this.#close(usage);
  }

  /** @param {string} why */
  end(why) {
    say(this.#took, `${why} ${counted(this.#answer.size, "token")} had come.`);
  }

  /** @param {string} why */
  fail(why) {
    say(this.#failure, why);
    this.#failure.hidden = false;
  }

  /**
   * Ask how each token came to be.
   * @param {Record<string, string>} headers
   */
  async explain(headers) {
    for (let tries = 0; this.#id && tries < TRIES; tries += 1) {
      const stories = await readStories(this.#id, headers).catch(() => []);
      const story = stories[0];
      const prompt = this.#usage?.prompt_tokens ?? story?.prompt_tokens;
      if (story && prompt !== null && prompt !== undefined) this.#answer.explain(originsOf(story, prompt));
      if (story?.ended) return;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MILLISECONDS));
    }
  }

  /** @param {Usage} usage */
  #close(usage) {
    this.#usage = usage;
    const now = performance.now();
    const { prompt_tokens, completion_tokens, prompt_tokens_details: prompt, completion_tokens_details: made } = usage;
    const kept = made.accepted_prediction_tokens;
    const fell = made.rejected_prediction_tokens;
    const streamed = (now - this.#first) / 1000;
    this.#took.replaceChildren(
      `Prompt ${counted(prompt_tokens, "token")}: ${count(prompt.cached_tokens)} found in the cache, ${count(prompt_tokens - prompt.cached_tokens)} computed. `,
      `Answer ${counted(completion_tokens, "token")}: `,
      make("span", { class: "drafted" }, `${count(kept)} guessed and kept`),
      `, ${count(completion_tokens - kept)} computed; ${counted(fell, "guess", "guesses")} fell. `,
      `First text after ${seconds((this.#first - this.#began) / 1000)}`,
      completion_tokens > 1 && streamed > 0
        ? `, then ${count((completion_tokens - 1) / streamed)} tokens a second.`
        : ".",
    );
  }
}
