// What a request's steps tell of its tokens, and what befell it in between.

import { counted } from "./words.js";

/** @import {Happening, Step, Story} from "./types.js" */

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
 * @param {number | null} promptTokens Known where the first step was seen.
 */
export function eventOf(step, before, promptTokens) {
  const said = [];
  if (!before && promptTokens !== null && step.chunk[0] > 0)
    said.push(`starts behind ${step.chunk[0]} positions of the cache`);
  if (before && step.chunk[0] < before.computed) said.push("had lost its cache, computes again");
  if (promptTokens !== null && step.chunk[0] < promptTokens)
    said.push(step.chunk[1] < promptTokens ? "part of the prompt" : "the prompt’s end");
  const fell = step.drafted - step.kept;
  if (fell > 0) said.push(`${fell} ${fell === 1 ? "guess" : "guesses"} fell`);
  return said.join(", ");
}

/**
 * Steps and what befell a sequence between them, in the order of time. A step's time is that of its end.
 * @param {Story} story
 * @returns {(Step | Happening)[]}
 */
export function lineOf({ steps, events }) {
  /** @type {(Step | Happening)[]} */
  const line = [];
  let next = 0;
  for (const step of steps) {
    for (; next < events.length && events[next].time < step.time; next += 1) line.push(events[next]);
    line.push(step);
  }
  return line.concat(events.slice(next));
}

/**
 * What befell a sequence, in words.
 * @param {Happening} happening
 */
export function happeningOf({ event, reason = "", error, cached_tokens, lost = 0, freed = 0 }) {
  const found = cached_tokens
    ? `${counted(cached_tokens, "position")} found in the cache`
    : "nothing found in the cache";
  switch (event) {
    case "queued":
      return "came into the queue";
    case "admitted":
      return `admitted, ${found}`;
    case "preempted":
      return `lost its cache of ${counted(lost, "position")}, ${counted(freed, "block")} freed: ${LOSSES[reason] ?? reason}`;
    case "paused":
      return "paused: its client does not read fast enough";
    case "unpaused":
      return "its client reads again: waits for a cache";
    case "parked":
      return "parked: its client has left";
    case "unparked":
      return "its client is back: waits";
    case "resumed":
      return cached_tokens === undefined ? "goes on" : `goes on, ${found}`;
    case "ended":
      return `ended: ${error ? `${reason} (${error})` : reason}`;
    default:
      return event;
  }
}

/** @type {Record<string, string>} */
const LOSSES = {
  room: "others needed the place",
  parked: "its client had left",
  step_failed: "a step failed, and is run again",
  stale: "a step’s result did not fit",
};

/**
 * What a sequence does behind its last event.
 * @param {Story} story
 */
export function stateOf({ events }) {
  const last = events.at(-1);
  if (!last || last.event === "admitted" || last.event === "resumed") return "running";
  if (last.event === "ended") return happeningOf(last);
  return last.event === "paused" || last.event === "parked" ? last.event : "waiting";
}

/**
 * From when to when a chart goes, and which of the events lie in it: from the last before the first step.
 * @param {Story} story With a step.
 */
export function spanOf({ steps, events }) {
  const first = steps[0].time;
  const start = Math.min(first, events.findLast(({ time }) => time < first)?.time ?? first);
  const stop = Math.max(steps[steps.length - 1].time, events.at(-1)?.time ?? 0);
  return { start, stop, within: events.filter(({ time }) => time >= start) };
}

/**
 * Where a time is in a chart, from its left.
 * @param {number} time
 * @param {{width: number, start: number, stop: number}} frame
 */
export function leftOf(time, { width, start, stop }) {
  return (((time - start) / Math.max(1e-9, stop - start)) * width).toFixed(1);
}

/**
 * The mark's line in a chart, as steps of a stair: it stands until the next step ends.
 * @param {Step[]} steps
 * @param {(step: Step) => number} mark
 * @param {{width: number, height: number, bottom: number, top: number, start: number, stop: number}} frame
 */
export function stairOf(steps, mark, frame) {
  const { height, bottom, top } = frame;
  const x = (/** @type {Step} */ step) => leftOf(step.time, frame);
  const y = (/** @type {Step} */ step) => (height - ((mark(step) - bottom) / (top - bottom)) * height).toFixed(1);
  return steps.map((step, index) => (index ? `H${x(step)}V${y(step)}` : `M${x(step)} ${y(step)}`)).join("");
}
