// One answer in the conversation: its text as it comes, how each token came to be, and what it took.

import { Answer } from "./answer.js";
import { make, say } from "./dom.js";
import { Making } from "./making.js";
import { readStories } from "./steps.js";
import { Took } from "./took.js";
import { count, counted, seconds } from "./words.js";

/** @import {Piece, Usage} from "./asking.js" */

const TRIES = 4; // for the last steps of an answer, which are told a moment after it
const PAUSE_MILLISECONDS = 250;

/** Marks tokens while they come: whenever the server has moved on it is asked for the steps that are not known yet. */
export class Turn {
  element;
  content = "";
  #headers;
  #thought = make("p", { class: "thought" });
  #answer = new Answer();
  #failure = make("p", { class: "failure", role: "alert" });
  #steps = make("button", { type: "button" }, "Steps");
  #took = new Took(this.#steps);
  #id = "";
  #tokens = 0;
  #began = performance.now();
  #first = 0;
  /** @type {Making | null} */
  #making = null;
  /** @type {Promise<void> | null} */
  #looking = null;
  #behind = false; // the server may know more than was last asked for

  /**
   * @param {object} options
   * @param {() => Record<string, string>} options.headers
   * @param {(request: string) => void} options.onSteps
   */
  constructor({ headers, onSteps }) {
    this.#headers = headers;
    this.#thought.hidden = this.#failure.hidden = true;
    this.#steps.style.visibility = "hidden"; // its place is kept
    this.#steps.addEventListener("click", () => onSteps(this.#id));
    this.element = make("article", {}, this.#thought, this.#answer.element, this.#failure, this.#took.element);
    this.element.dataset.state = "running";
  }

  /** How many tokens have come, those without text among them. */
  get size() {
    return this.#tokens;
  }

  /** @param {Piece} piece */
  add({ id, text, thought, scored, tokens, promptTokens, usage }) {
    if (!this.#id) this.#begin(id, promptTokens);
    this.content += text;
    this.#tokens += tokens;
    if (thought) this.#thought.append(thought);
    this.#thought.hidden = !this.#thought.textContent;
    this.#answer.add(text, scored);
    if (!this.#first && (text || thought)) this.#start();
    if (usage) this.#close(usage);
    else this.#tell();
  }

  /**
   * @param {string} id
   * @param {number | null} promptTokens
   */
  #begin(id, promptTokens) {
    this.#id = this.element.dataset.request = id;
    this.#steps.style.visibility = "";
    if (promptTokens !== null) this.#making = new Making(promptTokens);
    this.look();
  }

  #start() {
    this.#first = performance.now();
    this.#took.time(this.#firstText);
  }

  /**
   * Nothing more comes.
   * @param {string} [why] Where that was not the answer's own end.
   */
  end(why) {
    this.element.dataset.state = "ended";
    this.#answer.end();
    if (why) this.#took.time(why);
  }

  /** @param {string} why */
  fail(why) {
    this.end("broken off");
    say(this.#failure, why);
    this.#failure.hidden = false;
  }

  /** Ask for the steps that are not known yet; while an answer is awaited, once more behind it. */
  look() {
    if (!this.#making || this.#making.ended) return null;
    this.#behind = true;
    this.#looking ??= this.#read(this.#making);
    return this.#looking;
  }

  /** @param {Making} making */
  async #read(making) {
    while (this.#behind) {
      this.#behind = false;
      const stories = await readStories(this.#id, this.#headers(), making.last).catch(() => []);
      if (stories.length) making.take(stories[0]);
      this.#answer.mark(making);
      this.#tell();
    }
    this.#looking = null;
  }

  /** Ask until the last step is known, or it seems that it never will be. */
  async explain() {
    for (let tries = 0; this.#making && tries < TRIES; tries += 1) {
      await this.#looking;
      await this.look();
      if (this.#making.ended) return;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MILLISECONDS));
    }
  }

  #tell() {
    if (!this.#making) return;
    this.#took.prompt(this.#making.promptTokens, this.#making.cached);
    this.#took.answer(this.#tokens, this.#making);
  }

  /** @param {Usage} usage */
  #close({ prompt_tokens, completion_tokens, prompt_tokens_details }) {
    this.#tokens = completion_tokens;
    this.#took.prompt(prompt_tokens, prompt_tokens_details.cached_tokens);
    this.#took.answer(completion_tokens, this.#making);
    if (this.#making) this.#making.cached = prompt_tokens_details.cached_tokens;
    const streamed = (performance.now() - this.#first) / 1000;
    if (!this.#first || completion_tokens < 2 || streamed <= 0) return;
    this.#took.time(`${this.#firstText}, then ${count((completion_tokens - 1) / streamed)} a second`);
  }

  get #firstText() {
    return `first text ${seconds((this.#first - this.#began) / 1000)}`;
  }

  /** What is said once it has ended. */
  get said() {
    return `Answered with ${counted(this.#tokens, "token")}.`;
  }
}
