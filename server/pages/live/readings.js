// The row of readings: who runs and waits, how fast marks move, what the cache and the guesses give.

import { draw, make, say } from "./dom.js";
import { Rates } from "./rates.js";
import { count, percent, rate } from "./words.js";

/** @import {Snapshot} from "./types.js" */

const WINDOW_SECONDS = 3;
const SHARE_SECONDS = 60; // shares of what happened lately need more of it than rates do
const POINTS = 120;
const WIDTH = 120;
const HEIGHT = 24;

/** The readings. Rates fall to nothing while nothing comes: the server is silent when nothing changes. */
export class Readings {
  #rates = new Rates(WINDOW_SECONDS);
  #shares = new Rates(SHARE_SECONDS);
  /** @type {Snapshot | null} */
  #snapshot = null;
  #arrived = 0;
  #gauges;

  /** @param {HTMLElement} list */
  constructor(list) {
    this.#gauges = {
      running: new Gauge(list, "running"),
      waiting: new Gauge(list, "waiting"),
      computed: new Gauge(list, "computed, positions a second", { line: true }),
      published: new Gauge(list, "published, tokens a second", { line: true }),
      cache: new Gauge(list, "cache with owners", { line: true }),
      fallen: new Gauge(list, "guesses that fell, a second", { line: true }),
      prefix: new Gauge(list, "of prompts found in the cache"),
    };
  }

  /**
   * @param {Snapshot} snapshot
   * @param {number} now In seconds, of this page's clock.
   */
  show(snapshot, now) {
    this.#snapshot = snapshot;
    this.#arrived = now;
    this.#add(snapshot.time);
    this.#write();
  }

  /**
   * What half a second of the page's time does: lines go on, and rates end when nothing more comes.
   * @param {number} now
   */
  tick(now) {
    if (!this.#snapshot) return;
    const silent = now - this.#arrived;
    if (silent > 0.75) this.#add(this.#snapshot.time + silent);
    this.#write();
    const { computed, published, cache, fallen } = this.#gauges;
    computed.point(this.#rates.rate("computed"));
    published.point(this.#rates.rate("published"));
    cache.point(this.#snapshot.pool.allocated + this.#snapshot.pool.shared, this.#snapshot.pool.capacity);
    fallen.point(this.#rates.rate("rejected"));
  }

  /** Begin anew, as after a gap in which nobody looked. */
  reset() {
    this.#rates = new Rates(WINDOW_SECONDS);
    this.#shares = new Rates(SHARE_SECONDS);
    this.#snapshot = null;
  }

  /** @param {number} time */
  #add(time) {
    const { positions, prefix } = /** @type {Snapshot} */ (this.#snapshot);
    const last = this.#rates.last();
    if (last && time < last.time && time > last.time - 1) time = last.time; // our clock ran ahead of the server's
    const counters = { ...positions, queries: prefix.queries, hits: prefix.hits };
    this.#rates.add(time, counters);
    this.#shares.add(time, counters);
  }

  #write() {
    const { running, waiting, paused, parked, pool } = /** @type {Snapshot} */ (this.#snapshot);
    const gauges = this.#gauges;
    const others = [paused && `${paused} paused`, parked && `${parked} parked`].filter(Boolean);
    gauges.running.say(count(running), others.join(", "));
    gauges.waiting.say(count(waiting));
    gauges.computed.say(rate(this.#rates.rate("computed")));
    gauges.published.say(rate(this.#rates.rate("published")));
    gauges.cache.say(percent(pool.allocated + pool.shared, pool.capacity));
    gauges.fallen.say(rate(this.#rates.rate("rejected")));
    gauges.prefix.say(percent(this.#shares.rise("hits"), this.#shares.rise("queries")), "in the last minute");
  }
}

/** A number with its name, and a line of what it was. */
class Gauge {
  #value = make("span", { class: "value" });
  #note = make("span", { class: "note" });
  #line;
  /** @type {number[]} */
  #points = [];

  /**
   * @param {HTMLElement} list
   * @param {string} name
   * @param {{line?: boolean}} [options]
   */
  constructor(list, name, { line = false } = {}) {
    this.#line = draw("polyline", { points: "", class: "spark" });
    const said = make("dd", {}, this.#value, this.#note);
    if (line)
      said.append(
        draw(
          "svg",
          { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
          this.#line,
        ),
      );
    list.append(make("div", {}, make("dt", {}, name), said));
  }

  /**
   * @param {string} value
   * @param {string} [note]
   */
  say(value, note = "") {
    say(this.#value, value);
    say(this.#note, note);
  }

  /**
   * One more point of the line.
   * @param {number} value
   * @param {number} [top] The most that there can be; the most there was where nobody knows.
   */
  point(value, top) {
    this.#points = [...this.#points.slice(1 - POINTS), value];
    const highest = top ?? Math.max(1, ...this.#points);
    const start = POINTS - this.#points.length;
    const places = this.#points.map((one, index) => {
      const x = ((start + index) * WIDTH) / (POINTS - 1);
      return `${x.toFixed(1)},${(HEIGHT - 1 - (one / highest) * (HEIGHT - 2)).toFixed(1)}`;
    });
    this.#line.setAttribute("points", places.join(" "));
  }
}
