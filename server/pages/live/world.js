// What the snapshots add up to: the state of every unit of the pool and every slot, and who holds it.

/** @import {Cells, Info, Sequence, Snapshot, TableChange} from "./types.js" */

export const FREE = 0;
export const ALLOCATED = 1;
export const SHARED = 2;
export const CACHED = 3;
const ZERO = "0".charCodeAt(0);

/**
 * A unit in a sequence's table: which positions of it the unit holds.
 * @typedef {{sequence: Sequence, group: number, first: number, stop: number}} Holding
 */

/**
 * The places of one kind: what each one's state is, and who holds it.
 * @typedef {object} Field
 * @property {Uint8Array} codes As the server sends them: the state and, for units, the group.
 * @property {Map<number, Holding[]>} holdings For those with an owner.
 */

/**
 * A sequence's units in one group, from its block number `first` on.
 * @typedef {{first: number, units: number[]}} Table
 */

/**
 * @typedef {object} World
 * @property {Snapshot} snapshot The latest.
 * @property {Info} info
 * @property {Field} units
 * @property {Field | null} slots Where the model has recurrent states.
 * @property {Map<string, Table[]>} tables By sequence, one for each group.
 */

/**
 * The state that a code tells.
 * @param {number} code
 */
export function stateOf(code) {
  return code === 0 ? FREE : ((code - 1) % 3) + 1;
}

/**
 * The group that a unit's code tells, or null if it is free.
 * @param {number} code
 */
export function groupOf(code) {
  return code === 0 ? null : Math.floor((code - 1) / 3);
}

/**
 * The world after one more snapshot. A whole one begins a new world; without one before, an increment tells nothing.
 * @param {World | null} world
 * @param {Snapshot} snapshot
 * @returns {World | null}
 */
export function after(world, snapshot) {
  const before = snapshot.whole ? null : world;
  const info = snapshot.info ?? before?.info;
  if (!info) return null;
  const tables = tablesAfter(before?.tables ?? new Map(), snapshot.sequences, info);
  return {
    snapshot,
    info,
    tables,
    units: {
      codes: codesAfter(before?.units, snapshot.units),
      holdings: unitHoldings(snapshot.sequences, tables, info),
    },
    slots: snapshot.slots
      ? { codes: codesAfter(before?.slots, snapshot.slots), holdings: slotHoldings(snapshot.sequences) }
      : null,
  };
}

/**
 * @param {Field | null | undefined} field
 * @param {Cells} cells
 */
function codesAfter(field, { states, changed }) {
  if (states !== undefined) return codesOf(states);
  const codes = (field?.codes ?? new Uint8Array()).slice();
  for (const [first, letters] of changed ?? []) codes.set(codesOf(letters), first);
  return codes;
}

/** @param {string} letters */
function codesOf(letters) {
  return Uint8Array.from(letters, (letter) => letter.charCodeAt(0) - ZERO);
}

/**
 * @param {Map<string, Table[]>} before
 * @param {Sequence[]} sequences
 * @param {Info} info
 */
function tablesAfter(before, sequences, info) {
  return new Map(
    sequences.map(({ id, tables }) => [
      id,
      tables.map((change, group) => tableAfter(before.get(id)?.[group], change, info.groups[group].width)),
    ]),
  );
}

/**
 * @param {Table | undefined} before
 * @param {TableChange} change Blocks below `kept` stay, those below the new `first` are gone.
 * @param {number} width How many units a block of this group takes.
 * @returns {Table}
 */
function tableAfter(before, { first, kept, units }, width) {
  if (!before || kept <= first) return { first, units };
  const stays = before.units.slice((first - before.first) * width, (kept - before.first) * width);
  return { first, units: stays.concat(units) };
}

/**
 * @param {Sequence[]} sequences
 * @param {Map<string, Table[]>} tables
 * @param {Info} info
 */
function unitHoldings(sequences, tables, info) {
  /** @type {Map<number, Holding[]>} */
  const holdings = new Map();
  for (const sequence of sequences) {
    (tables.get(sequence.id) ?? []).forEach((table, group) => {
      const { width } = info.groups[group];
      table.units.forEach((unit, index) => {
        const start = (table.first + Math.floor(index / width)) * info.block_size;
        hold(holdings, unit, { sequence, group, first: start, stop: start + info.block_size });
      });
    });
  }
  return holdings;
}

/** @param {Sequence[]} sequences */
function slotHoldings(sequences) {
  /** @type {Map<number, Holding[]>} */
  const holdings = new Map();
  for (const sequence of sequences) {
    if (sequence.slot === null || sequence.slot === undefined) continue;
    hold(holdings, sequence.slot, { sequence, group: 0, first: 0, stop: sequence.computed });
  }
  return holdings;
}

/**
 * @param {Map<number, Holding[]>} holdings
 * @param {number} place
 * @param {Holding} holding
 */
function hold(holdings, place, holding) {
  const held = holdings.get(place);
  if (held) held.push(holding);
  else holdings.set(place, [holding]);
}

/**
 * How many of the positions that a unit has place for are computed.
 * @param {Holding} holding
 */
export function filled({ sequence, first, stop }) {
  return Math.max(0, Math.min(stop, sequence.computed) - first);
}

/**
 * How many places are in each state, by state.
 * @param {Uint8Array} codes
 */
export function tally(codes) {
  const counts = [0, 0, 0, 0];
  for (const code of codes) counts[stateOf(code)] += 1;
  return counts;
}

/**
 * How many units of each group are in each state: by group, then by state.
 * @param {Uint8Array} codes
 * @param {number} groups
 */
export function tallyByGroup(codes, groups) {
  const counts = Array.from({ length: groups }, () => [0, 0, 0, 0]);
  for (const code of codes) {
    const group = groupOf(code);
    if (group !== null && group < groups) counts[group][stateOf(code)] += 1;
  }
  return counts;
}
