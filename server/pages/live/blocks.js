// What a place of the map is, in words.

import { ALLOCATED, CACHED, FREE, filled, groupOf, SHARED, stateOf, tally } from "./world.js";
import { count, counted, positions } from "./words.js";

/** @import {Owners} from "./owners.js" */
/** @import {Field, Holding, World} from "./world.js" */

const MOST_NAMED = 4;

/**
 * Describe units of the pool: one in full, several by their numbers.
 * @param {World} world
 * @param {Owners} owners
 * @param {number} first
 * @param {number} stop
 */
export function describeUnits(world, owners, first, stop) {
  if (stop - first > 1) return several(world.units, "Blocks", first, stop);
  const code = world.units.codes[first];
  const group = groupOf(code);
  const layout = world.info.groups.length > 1 && group !== null ? ` (${world.info.groups[group].layout})` : "";
  return `Block ${count(first)}${layout}: ${one(world, world.units, owners, first, inUnit)}`;
}

/**
 * Describe slots: one in full, several by their numbers.
 * @param {World} world
 * @param {Owners} owners
 * @param {number} first
 * @param {number} stop
 */
export function describeSlots(world, owners, first, stop) {
  const field = /** @type {Field} */ (world.slots);
  if (stop - first > 1) return several(field, "Slots", first, stop);
  if (stateOf(field.codes[first]) === CACHED)
    return `Slot ${count(first)}: a checkpoint, from which a later prompt may start.`;
  return `Slot ${count(first)}: ${one(world, field, owners, first, inSlot)}`;
}

/**
 * @param {World} world
 * @param {Field} field
 * @param {Owners} owners
 * @param {number} place
 * @param {(owners: Owners, holding: Holding) => string} told
 */
function one({ snapshot }, field, owners, place, told) {
  const state = stateOf(field.codes[place]);
  if (state === FREE) return "free.";
  if (state === CACHED) return "no owner; kept for a prompt that begins the same way.";
  const held = field.holdings.get(place) ?? [];
  if (!held.length) return state === SHARED ? "shared." : "one owner.";
  const said = held.slice(0, MOST_NAMED).map((holding) => told(owners, holding));
  if (held.length > MOST_NAMED) said.push(counted(held.length - MOST_NAMED, "more owner"));
  const some = snapshot.unlisted.running + snapshot.unlisted.paused > 0 ? "at least " : "";
  return `${state === SHARED ? `shared by ${some}${held.length}: ` : ""}${said.join("; ")}.`;
}

/**
 * @param {Owners} owners
 * @param {Holding} holding
 */
function inUnit(owners, holding) {
  const { sequence, first, stop } = holding;
  const full = filled(holding);
  const how = full === stop - first ? "all computed" : `${count(full)} of them computed`;
  return `${nameOf(owners, sequence)} has its ${positions(first, stop)} here, ${how}`;
}

/**
 * @param {Owners} owners
 * @param {Holding} holding
 */
function inSlot(owners, { sequence }) {
  return `the state of ${nameOf(owners, sequence)} after ${counted(sequence.computed, "position")}`;
}

/**
 * A sequence's letter, and its choice where there are several.
 * @param {Owners} owners
 * @param {{request_id: string, choice: number}} sequence
 */
export function nameOf(owners, { request_id, choice }) {
  const { letter } = owners.of(request_id);
  return choice > 0 ? `${letter}${choice + 1}` : letter;
}

/**
 * @param {Field} field
 * @param {string} noun
 * @param {number} first
 * @param {number} stop
 */
function several(field, noun, first, stop) {
  const counts = tally(field.codes.subarray(first, stop));
  const said = /** @type {[number, string][]} */ ([
    [counts[ALLOCATED], "with one owner"],
    [counts[SHARED], "shared"],
    [counts[CACHED], "kept without owner"],
    [counts[FREE], "free"],
  ]);
  const parts = said.filter(([number]) => number).map(([number, words]) => `${number} ${words}`);
  return `${noun} ${count(first)} to ${count(stop - 1)}: ${parts.join(", ")}.`;
}
