// What a request's steps tell of its tokens.

/** @import {Step, Story} from "./types.js" */

/**
 * How a token of an answer came to be.
 * @typedef {object} Origin
 * @property {number} position
 * @property {number} step
 * @property {boolean} drafted Whether it had been guessed, and the guess stood.
 * @property {string} source Of the guess.
 */

/**
 * How each token behind the prompt came to be, by its number in the answer.
 * @param {Story} story
 * @param {number} promptTokens
 * @returns {Map<number, Origin>}
 */
export function originsOf(story, promptTokens) {
  /** @type {Map<number, Origin>} */
  const origins = new Map();
  for (const { step, accepted, tokens, kept, source } of story.steps) {
    for (let index = 0; index < tokens; index += 1) {
      const position = accepted - tokens + index;
      origins.set(position - promptTokens, { position, step, drafted: index < kept, source });
    }
  }
  return origins;
}

/**
 * What happened at a step, in words, beside what its numbers say.
 * @param {Step} step
 * @param {Step | undefined} before
 * @param {number} promptTokens
 */
export function eventOf(step, before, promptTokens) {
  const said = [];
  if (!before && step.chunk[0] > 0) said.push(`starts behind ${step.chunk[0]} positions of the cache`);
  if (before && step.chunk[0] < before.computed) said.push("had lost its cache, computes again");
  if (step.chunk[0] < promptTokens) said.push(step.chunk[1] < promptTokens ? "part of the prompt" : "the prompt’s end");
  const fell = step.drafted - step.kept;
  if (fell > 0) said.push(`${fell} ${fell === 1 ? "guess" : "guesses"} fell`);
  return said.join(", ");
}

/**
 * The mark's line in a chart, as steps of a stair: it stands until the next step ends.
 * @param {Step[]} steps
 * @param {(step: Step) => number} mark
 * @param {{width: number, height: number, bottom: number, top: number}} frame
 */
export function stairOf(steps, mark, { width, height, bottom, top }) {
  const start = steps[0].time;
  const span = Math.max(1e-9, steps[steps.length - 1].time - start);
  const x = (/** @type {Step} */ step) => (((step.time - start) / span) * width).toFixed(1);
  const y = (/** @type {Step} */ step) => (height - ((mark(step) - bottom) / (top - bottom)) * height).toFixed(1);
  return steps.map((step, index) => (index ? `H${x(step)}V${y(step)}` : `M${x(step)} ${y(step)}`)).join("");
}
