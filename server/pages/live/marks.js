// A request's marks in numbers that can be drawn.

/** @import {Sequence} from "./types.js" */

export const MARKS = /** @type {const} */ (["planned", "computed", "accepted", "published"]);
export const NUM_CELLS = 28;
const SHORTEST = 64; // positions of a bar
const BEFORE = 10; // cells of what is computed already, at the left

/**
 * How far the bars reach: the request's own length, as far as it is near; a round number beyond its marks otherwise.
 * @param {{planned: number, accepted: number, max_length: number}} sequence
 */
export function reach({ planned, accepted, max_length }) {
  const top = Math.max(planned, accepted);
  let round = SHORTEST;
  while (round < top) round *= 2;
  return max_length <= round ? Math.max(max_length, top) : round;
}

/**
 * What a position is, as the ledger has it.
 * @typedef {"held" | "flying" | "guess" | "owed" | "free"} Kind
 */

/**
 * What stands at a position: in the cache, being computed, a guess being checked, owed, or nothing.
 * @param {number} position
 * @param {{planned: number, computed: number, accepted: number}} marks
 * @returns {Kind}
 */
export function kindAt(position, { planned, computed, accepted }) {
  if (position < computed) return "held";
  if (position < planned) return position < accepted ? "flying" : "guess";
  return position < accepted ? "owed" : "free";
}

/**
 * The positions around `computed`, one cell each.
 * @param {Sequence} sequence
 * @returns {{position: number, kind: Kind, prompt: boolean}[]}
 */
export function cellsOf(sequence) {
  const first = Math.max(0, sequence.computed - BEFORE);
  return Array.from({ length: NUM_CELLS }, (_, index) => {
    const position = first + index;
    return { position, kind: kindAt(position, sequence), prompt: position < sequence.prompt_tokens };
  });
}
