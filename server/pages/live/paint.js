// How the places of a map look: free, with one owner, shared, kept.

import { ALLOCATED, CACHED, FREE, SHARED, stateOf, tally } from "./world.js";
import { blocksOf, cornerOf } from "./layout.js";
import { NUM_HUES } from "./owners.js";

/** @import {Grid} from "./layout.js" */
/** @import {Owners} from "./owners.js" */
/** @import {Field} from "./world.js" */

const LETTER_FROM = 16; // the smallest square that a letter can be read in
const DIMMED = 0.22;

/**
 * @typedef {object} Colours
 * @property {string[]} owners
 * @property {string} free
 * @property {string} kept
 * @property {string} ground
 * @property {string} ink
 */

/**
 * The colours of the scheme in force.
 * @param {Element} element
 * @returns {Colours}
 */
export function coloursOf(element) {
  const style = getComputedStyle(element);
  const colour = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  return {
    owners: Array.from({ length: NUM_HUES }, (_, hue) => colour(`--owner-${hue}`)),
    free: colour("--free"),
    kept: colour("--kept"),
    ground: colour("--surface"),
    ink: colour("--ink"),
  };
}

/** Paints the cells of one field, once. */
export class Painter {
  #pen;
  #field;
  #grid;
  #colours;
  #owners;
  #lit;
  #side;

  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {object} scene
   * @param {Field} scene.field
   * @param {Grid} scene.grid
   * @param {Colours} scene.colours
   * @param {Owners} scene.owners
   * @param {string | null} scene.lit The request that stands out, or null.
   */
  constructor(pen, { field, grid, colours, owners, lit }) {
    this.#pen = pen;
    this.#field = field;
    this.#grid = grid;
    this.#colours = colours;
    this.#owners = owners;
    this.#lit = lit;
    this.#side = grid.size - grid.gap;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.font = `600 ${Math.round(grid.size * 0.5)}px system-ui, sans-serif`;
  }

  /** @param {number} cell */
  cell(cell) {
    const { x, y } = cornerOf(this.#grid, cell);
    const [first, stop] = blocksOf(this.#grid, cell);
    if (stop - first > 1) return this.#many(first, stop, x, y);
    const state = stateOf(this.#field.codes[first]);
    if (state === FREE) this.#free(x, y);
    else if (state === CACHED) this.#kept(x, y);
    else this.#owned(first, state, x, y);
  }

  /** @param {number} cell */
  cursor(cell) {
    const { x, y } = cornerOf(this.#grid, cell);
    this.#pen.globalAlpha = 1;
    for (const [colour, width] of /** @type {[string, number][]} */ ([
      [this.#colours.ground, 4],
      [this.#colours.ink, 2],
    ])) {
      this.#pen.strokeStyle = colour;
      this.#pen.lineWidth = width;
      this.#pen.strokeRect(x, y, this.#side, this.#side);
    }
  }

  /** @param {string[]} requests */
  #dim(requests) {
    this.#pen.globalAlpha = this.#lit !== null && !requests.includes(this.#lit) ? DIMMED : 1;
  }

  /**
   * A dot.
   * @param {number} x
   * @param {number} y
   */
  #free(x, y) {
    this.#dim([]);
    this.#middle(this.#colours.free, Math.max(1, Math.round(this.#side / 5)), x, y);
  }

  /**
   * A frame.
   * @param {number} x
   * @param {number} y
   */
  #kept(x, y) {
    this.#dim([]);
    const width = this.#side >= 8 ? 1.5 : 1;
    this.#pen.strokeStyle = this.#colours.kept;
    this.#pen.lineWidth = width;
    this.#pen.strokeRect(x + width / 2, y + width / 2, this.#side - width, this.#side - width);
  }

  /**
   * A full square in its owner's colour, with the owner's letter or the sign of several.
   * @param {number} block
   * @param {number} state
   * @param {number} x
   * @param {number} y
   */
  #owned(block, state, x, y) {
    const requests = this.#requestsOf(block);
    const [first, second] = requests.map((id) => this.#owners.of(id));
    this.#dim(requests);
    this.#pen.fillStyle = first ? this.#colours.owners[first.hue] : this.#colours.kept;
    this.#pen.fillRect(x, y, this.#side, this.#side);
    if (state === SHARED) this.#shared(second ? this.#colours.owners[second.hue] : null, x, y);
    else if (first && this.#grid.size >= LETTER_FROM) this.#letter(first.letter, x, y);
  }

  /**
   * @param {string} letter
   * @param {number} x
   * @param {number} y
   */
  #letter(letter, x, y) {
    this.#pen.fillStyle = this.#colours.ground;
    this.#pen.fillText(letter, x + this.#side / 2, y + this.#side / 2 + 0.5, this.#side);
  }

  /**
   * The second owner's colour below the diagonal, and a hole in the middle.
   * @param {string | null} second
   * @param {number} x
   * @param {number} y
   */
  #shared(second, x, y) {
    if (second) {
      this.#pen.fillStyle = second;
      this.#pen.beginPath();
      this.#pen.moveTo(x + this.#side, y);
      this.#pen.lineTo(x + this.#side, y + this.#side);
      this.#pen.lineTo(x, y + this.#side);
      this.#pen.fill();
    }
    this.#middle(this.#colours.ground, Math.max(1, Math.round(this.#side / 3)), x, y);
  }

  /**
   * @param {string} colour
   * @param {number} size
   * @param {number} x
   * @param {number} y
   */
  #middle(colour, size, x, y) {
    this.#pen.fillStyle = colour;
    this.#pen.fillRect(x + (this.#side - size) / 2, y + (this.#side - size) / 2, size, size);
  }

  /**
   * Several blocks in one square: filled from below by how many have owners, then narrower by how many are kept.
   * @param {number} first
   * @param {number} stop
   * @param {number} x
   * @param {number} y
   */
  #many(first, stop, x, y) {
    const counts = tally(this.#field.codes.subarray(first, stop));
    const owned = counts[ALLOCATED] + counts[SHARED];
    if (!owned && !counts[CACHED]) return this.#free(x, y);
    const requests = owned ? this.#ownersWithin(first, stop) : [];
    const part = this.#side / (stop - first);
    const height = Math.ceil(part * owned);
    const kept = Math.min(this.#side - height, Math.ceil(part * counts[CACHED]));
    this.#dim(requests);
    this.#pen.fillStyle = requests.length ? this.#colours.owners[this.#owners.of(requests[0]).hue] : this.#colours.kept;
    this.#pen.fillRect(x, y + this.#side - height, this.#side, height);
    this.#pen.fillStyle = this.#colours.kept;
    this.#pen.fillRect(x + this.#side / 4, y + this.#side - height - kept, this.#side / 2, kept);
  }

  /**
   * @param {number} block
   * @returns {string[]} The requests that own it.
   */
  #requestsOf(block) {
    const held = this.#field.holdings.get(block) ?? [];
    return [...new Set(held.map((one) => one.sequence.request_id))];
  }

  /**
   * @param {number} first
   * @param {number} stop
   * @returns {string[]} The requests that own any of these, the one with the most first.
   */
  #ownersWithin(first, stop) {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (let block = first; block < stop; block += 1) {
      for (const id of this.#requestsOf(block)) counts.set(id, (counts.get(id) ?? 0) + 1);
    }
    return [...counts].sort(([, one], [, other]) => other - one).map(([id]) => id);
  }
}
