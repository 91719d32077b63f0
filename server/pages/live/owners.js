// Who is who: a letter and a colour for each request, for as long as this page lives.

export const NUM_HUES = 8;

/** @typedef {{letter: string, hue: number}} Owner */

/**
 * The letters of the nth request: A to Z, then AA.
 * @param {number} index From 0.
 * @returns {string}
 */
export function letters(index) {
  const last = String.fromCharCode(65 + (index % 26));
  return index < 26 ? last : letters(Math.floor(index / 26) - 1) + last;
}

/** Gives names to requests. Those that run at once have different colours as far as there are enough. */
export class Owners {
  /** @type {Map<string, Owner>} */
  #known = new Map();
  #count = 0;

  /**
   * Make room for these requests and forget the oldest others.
   * @param {Iterable<string>} requests The ids of those that there are now.
   * @param {number} [most] How many are remembered.
   */
  meet(requests, most = 200) {
    const present = new Set(requests);
    for (const id of present) if (!this.#known.has(id)) this.#name(id, present);
    for (const id of this.#known.keys()) {
      if (this.#known.size <= most) break;
      if (!present.has(id)) this.#known.delete(id);
    }
  }

  /**
   * @param {string} id
   * @returns {Owner} Of a request that was met; a nameless one for any other.
   */
  of(id) {
    return this.#known.get(id) ?? { letter: "–", hue: 0 };
  }

  /**
   * @param {string} id
   * @param {Set<string>} present
   */
  #name(id, present) {
    const taken = new Array(NUM_HUES).fill(0);
    for (const other of present) {
      const owner = this.#known.get(other);
      if (owner) taken[owner.hue] += 1;
    }
    const start = this.#count % NUM_HUES;
    const hues = taken.map((_, index) => (start + index) % NUM_HUES);
    const hue = hues.reduce((best, one) => (taken[one] < taken[best] ? one : best));
    this.#known.set(id, { letter: letters(this.#count), hue });
    this.#count += 1;
  }
}
