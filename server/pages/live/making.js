// How an answer's tokens came to be, told while they come: a step may be told before its tokens are here, or behind them.

import { originsOf } from "./story.js";

/** @import {Origin} from "./story.js" */
/** @import {Story} from "./types.js" */

/**
 * Guesses that fell, at the place of the first of them: the model chose another token there.
 * @typedef {{fell: number, source: string, step: number}} Fall
 */

/** What is known of one answer's tokens, by their number in all that the model wrote. */
export class Making {
  /** @type {Map<number, Origin>} */
  origins = new Map();
  /** @type {Map<number, Fall>} */
  falls = new Map();
  /** @type {number | null} */
  cached = null;
  promptTokens;
  last = 0; // the newest step that is known
  ended = false;

  /** @param {number} promptTokens */
  constructor(promptTokens) {
    this.promptTokens = promptTokens;
  }

  /**
   * Take more steps; those that are known already tell nothing new.
   * @param {Story} story
   */
  take(story) {
    const steps = story.steps.filter(({ step }) => step > this.last);
    for (const [number, origin] of originsOf({ ...story, steps }, this.promptTokens)) this.origins.set(number, origin);
    for (const { step, accepted, tokens, drafted, kept, source } of steps) {
      if (kept < drafted) this.#fall(accepted - tokens + kept - this.promptTokens, { fell: drafted - kept, source, step });
      this.last = step;
    }
    this.cached = story.cached_tokens ?? this.cached;
    this.ended = story.ended !== null;
  }

  /**
   * @param {number} number
   * @param {Fall} fall
   */
  #fall(number, { fell, source, step }) {
    this.falls.set(number, { fell: fell + (this.falls.get(number)?.fell ?? 0), source, step });
  }

  /**
   * How many of an answer's first tokens had been guessed and how many were computed, as far as it is told, and how many
   * guesses fell on the way.
   * @param {number} tokens How many have come.
   */
  tally(tokens) {
    const counts = { kept: 0, computed: 0, fell: 0 };
    for (let number = 0; number < tokens; number += 1) {
      const origin = this.origins.get(number);
      if (origin) counts[origin.drafted ? "kept" : "computed"] += 1;
    }
    for (const [number, { fell }] of this.falls) if (number < tokens || this.ended) counts.fell += fell;
    return counts;
  }

  /**
   * How many guesses fell behind a token.
   * @param {number} number
   */
  fellBehind(number) {
    let sum = 0;
    for (const [at, { fell }] of this.falls) if (at > number) sum += fell;
    return sum;
  }
}
