// The stream of snapshots: opened, listened to, opened again when it broke, closed while nobody looks.

import { eventsOf } from "./sse.js";

const FIRST_WAIT_SECONDS = 0.5;
const LONGEST_WAIT_SECONDS = 8;
const SILENCE_SECONDS = 90; // the server says something every 15 s, unless keep_alive_seconds is set higher

/**
 * @typedef {object} FeedState
 * @property {"connecting" | "live" | "waiting" | "hidden" | "key" | "refused"} kind
 * @property {string} [why] Why it waits, as far as it is known.
 * @property {number} [seconds] Until it tries again.
 */

/**
 * How long to wait before a try: twice as long each time, up to a limit.
 * @param {number} failures How many tries have failed since one worked, from 1.
 * @param {number} random From 0 to 1, so that pages do not all come back at once.
 */
export function waitSeconds(failures, random) {
  const full = Math.min(LONGEST_WAIT_SECONDS, FIRST_WAIT_SECONDS * 2 ** (failures - 1));
  return full * (0.75 + random / 4);
}

/** One stream of snapshots for as long as somebody looks. */
export class Feed {
  #options;
  #failures = 0;
  /** @type {AbortController | null} */
  #open = null;
  /** @type {number | undefined} */
  #timer;

  /**
   * @param {object} options
   * @param {string} options.url
   * @param {() => Record<string, string>} options.headers
   * @param {(snapshot: any) => void} options.onSnapshot
   * @param {(state: FeedState) => void} options.onState
   */
  constructor(options) {
    this.#options = options;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.#rest() : this.start()));
    window.addEventListener("pagehide", () => this.#close());
  }

  /** Open the stream now, whatever was before. */
  start() {
    this.#close();
    if (document.hidden) return this.#rest();
    this.#failures = 0;
    this.#connect();
  }

  #rest() {
    this.#close();
    this.#options.onState({ kind: "hidden" });
  }

  #close() {
    clearTimeout(this.#timer);
    this.#open?.abort();
    this.#open = null;
  }

  async #connect() {
    const leaving = new AbortController();
    this.#open = leaving;
    this.#options.onState({ kind: "connecting" });
    try {
      await this.#listen(leaving);
    } catch (error) {
      if (!leaving.signal.aborted || this.#open === leaving) this.#failed("The connection broke.");
    }
  }

  /** @param {AbortController} leaving */
  async #listen(leaving) {
    const { url, headers, onSnapshot, onState } = this.#options;
    const heard = this.#watchdog(leaving);
    const response = await fetch(url, { headers: headers(), signal: leaving.signal, cache: "no-store" });
    if (response.status === 401) return onState({ kind: "key" });
    if (!response.ok || !response.body) return this.#failed(await refusal(response));
    let why = "The connection ended.";
    for await (const event of eventsOf(response.body, heard)) {
      if (event.name === "end") why = "The server is shutting down.";
      if (event.name !== "snapshot") continue;
      this.#failures = 0;
      onState({ kind: "live" });
      onSnapshot(JSON.parse(event.data));
    }
    if (this.#open === leaving) this.#failed(why);
  }

  /**
   * Gives the stream up when nothing was heard for long, as behind a proxy that lost it.
   * @param {AbortController} leaving
   */
  #watchdog(leaving) {
    const heard = () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => leaving.abort(), 1000 * SILENCE_SECONDS);
    };
    heard();
    return heard;
  }

  /** @param {string} why */
  #failed(why) {
    this.#failures += 1;
    const seconds = waitSeconds(this.#failures, Math.random());
    clearTimeout(this.#timer);
    this.#options.onState({ kind: "waiting", why, seconds });
    this.#timer = setTimeout(() => this.#connect(), 1000 * seconds);
  }
}

/**
 * What a refusal says.
 * @param {Response} response
 */
async function refusal(response) {
  const body = await response.json().catch(() => null);
  const message = body?.error?.message;
  return message ? `The server answers: ${message}.` : `The server answers ${response.status}.`;
}
