// An answer, token by token: what each one is, how it came to be, and what else there could have been.

import { make } from "./dom.js";
import { count, counted, sourceName } from "./words.js";

/** @import {Scored} from "./asking.js" */
/** @import {Fall, Making} from "./making.js" */
/** @import {Origin} from "./story.js" */

/**
 * @typedef {object} Token
 * @property {HTMLElement} element
 * @property {Scored | null} scored
 * @property {Origin | null} origin Null while no step has told of it.
 * @property {Fall | null} fall Guesses that fell at its place.
 * @property {number} behind How many fell behind the last one.
 */

/** The tokens of one answer. One stop of the Tab key; the arrow keys go from token to token. */
export class Answer {
  element;
  #text = make("div", {
    class: "answer",
    tabindex: "0",
    role: "group",
    "aria-label": "Answer. Arrow keys go from token to token.",
    "aria-live": "polite",
    "aria-busy": "true", // it is read out once it is whole
  });
  #told = make("div", { class: "token", "aria-live": "polite" });
  /** @type {Token[]} */
  #tokens = [];
  #decoder = new TextDecoder();
  /** @type {Making | null} */
  #making = null;
  /** @type {number | null} */
  #current = null;

  constructor() {
    this.#told.hidden = true;
    this.element = make("div", {}, this.#text, this.#told);
    this.#text.addEventListener("pointerover", (event) => this.#point(event.target));
    this.#text.addEventListener("pointerdown", (event) => this.#point(event.target));
    this.#text.addEventListener("focus", () => this.#choose(this.#current ?? 0));
    this.#text.addEventListener("keydown", (event) => this.#key(event));
  }

  /**
   * Add what came: by tokens where they are told, else as one piece.
   * @param {string} text
   * @param {Scored[]} scored
   */
  add(text, scored) {
    if (scored.length)
      scored.forEach((one) => this.#add(this.#decoder.decode(Uint8Array.from(one.bytes), { stream: true }), one));
    else if (text) this.#add(text, null);
  }

  /**
   * Mark the tokens of which more is known now: neither their text nor their place changes by it.
   * @param {Making} making
   */
  mark(making) {
    this.#making = making;
    for (const token of this.#tokens) if (!token.origin) this.#mark(token);
    this.#markEnd();
    if (this.#current !== null) this.#describe(this.#current);
  }

  /** Nothing more comes. */
  end() {
    this.#text.setAttribute("aria-busy", "false");
    this.#markEnd();
  }

  /** @param {Token} token */
  #mark(token) {
    if (!this.#making || !token.scored) return;
    token.origin = this.#making.origins.get(token.scored.index) ?? null;
    token.fall = this.#making.falls.get(token.scored.index) ?? null;
    if (token.origin?.drafted) token.element.classList.add("drafted");
    if (token.fall) token.element.dataset.fell = String(token.fall.fell);
  }

  /** Guesses that fell where the answer ended have no token in their place: they are marked behind its last. */
  #markEnd() {
    const last = this.#tokens.at(-1);
    if (!this.#making || !last?.scored || this.#text.getAttribute("aria-busy") === "true") return;
    last.behind = this.#making.fellBehind(last.scored.index);
    if (last.behind) last.element.dataset.behind = String(last.behind);
  }

  /**
   * @param {string} text
   * @param {Scored | null} scored
   */
  #add(text, scored) {
    const element = make("span", { class: "piece", "data-index": String(this.#tokens.length) }, text);
    const token = { element, scored, origin: null, fall: null, behind: 0 };
    this.#tokens.push(token);
    this.#mark(token);
    this.#text.append(element);
  }

  /** @param {EventTarget | null} target */
  #point(target) {
    if (target instanceof HTMLElement && target.dataset.index !== undefined) this.#choose(Number(target.dataset.index));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    /** @type {Record<string, number>} */
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -this.#tokens.length, End: this.#tokens.length };
    const move = moves[event.key];
    if (move === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    this.#choose(Math.max(0, Math.min(this.#tokens.length - 1, (this.#current ?? 0) + move)));
  }

  /** @param {number} index */
  #choose(index) {
    const token = this.#tokens[index];
    if (!token) return;
    if (this.#current !== null) this.#tokens[this.#current]?.element.classList.remove("current");
    this.#current = index;
    token.element.classList.add("current");
    this.#told.hidden = false;
    this.#describe(index);
  }

  /** @param {number} index */
  #describe(index) {
    const described = make("div", {}, ...description(this.#tokens[index], index));
    if (described.textContent !== this.#told.textContent) this.#told.replaceChildren(described);
  }
}

/**
 * A token in words.
 * @param {Token} token
 * @param {number} index
 * @returns {Node[]}
 */
function description({ element, scored, origin, fall, behind }, index) {
  const head = make(
    "p",
    {},
    make("code", {}, visible(scored?.token ?? element.textContent ?? "")),
    ` token ${count(index + 1)}`,
  );
  if (scored) head.append(`, ${chance(scored.logprob)} (log ${scored.logprob.toFixed(3)})`);
  if (origin)
    head.append(
      origin.drafted ? `; guessed from ${sourceName(origin.source)}, and stood` : "; computed",
      ` in step ${count(origin.step)}, position ${count(origin.position)}`,
    );
  if (fall) head.append(`; ${counted(fall.fell, "guess", "guesses")} from ${sourceName(fall.source)} fell here`);
  if (behind) head.append(`; ${counted(behind, "guess", "guesses")} fell behind it`);
  const top = scored?.top_logprobs ?? [];
  if (!top.length) return [head];
  const list = make(
    "ol",
    { class: "alternatives", "aria-label": "The likeliest tokens here" },
    ...top.map((one) => alternative(one, one.token === scored?.token)),
  );
  return [head, list];
}

/**
 * @param {{token: string, logprob: number}} one
 * @param {boolean} chosen
 */
function alternative({ token, logprob }, chosen) {
  const fill = make("i");
  fill.style.transform = `scaleX(${Math.exp(logprob)})`;
  const item = make(
    "li",
    chosen ? { class: "chosen" } : {},
    make("code", {}, visible(token)),
    make("span", { class: "track" }, fill),
    make("span", { class: "number" }, chance(logprob)),
  );
  if (chosen) item.append(make("span", { class: "out-of-sight" }, " chosen"));
  return item;
}

/**
 * A chance in per cent.
 * @param {number} logprob
 */
function chance(logprob) {
  const value = 100 * Math.exp(logprob);
  if (value >= 99.95) return "100 %";
  return value < 0.1 ? "< 0.1 %" : `${value.toFixed(1)} %`;
}

/**
 * A token's text with its spaces and line ends to be seen.
 * @param {string} text
 */
export function visible(text) {
  return text.replaceAll(" ", "␣").replaceAll("\n", "↵").replaceAll("\t", "⇥") || "∅";
}
