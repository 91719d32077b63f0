// Rates, as differences of counters.

/** @typedef {{time: number, counters: Record<string, number>}} Sample */

/** Counters over the last seconds. */
export class Rates {
  /** @type {Sample[]} */
  #samples = [];
  #seconds;

  /** @param {number} seconds How far back it looks. */
  constructor(seconds) {
    this.#seconds = seconds;
  }

  /**
   * Add what the counters are now. Counters that fell, or a clock that did, are another server's: it begins anew.
   * @param {number} time In seconds.
   * @param {Record<string, number>} counters
   */
  add(time, counters) {
    const last = this.#samples.at(-1);
    if (last && (time < last.time || Object.keys(counters).some((name) => counters[name] < last.counters[name]))) {
      this.#samples = [];
    }
    this.#samples.push({ time, counters });
    while (this.#samples.length > 2 && this.#samples[1].time <= time - this.#seconds) this.#samples.shift();
  }

  /**
   * By how much a counter rose.
   * @param {string} name
   */
  rise(name) {
    const [first, last] = this.#ends();
    return first && last ? (last.counters[name] ?? 0) - (first.counters[name] ?? 0) : 0;
  }

  /**
   * By how much a counter rose each second.
   * @param {string} name
   */
  rate(name) {
    const [first, last] = this.#ends();
    return first && last && last.time > first.time ? this.rise(name) / (last.time - first.time) : 0;
  }

  /** The latest sample. */
  last() {
    return this.#samples.at(-1);
  }

  #ends() {
    return [this.#samples[0], this.#samples.at(-1)];
  }
}
