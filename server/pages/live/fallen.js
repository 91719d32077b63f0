// Guesses that fell, as they fall.

import { make, say } from "./dom.js";
import { count, counted, sourceName } from "./words.js";
import { badge } from "./requests.js";

/** @import {Owners} from "./owners.js" */
/** @import {Rejection, Sequence} from "./types.js" */

const MOST = 60;

/**
 * Guesses as small squares: those that stood, then those that fell.
 * @param {number} drafted
 * @param {number} kept
 */
export function guesses(drafted, kept) {
  const squares = Array.from({ length: Math.min(drafted, 24) }, (_, index) =>
    make("i", { class: index < kept ? "stood" : "fell" }),
  );
  return make(
    "span",
    { class: "guesses", role: "img", "aria-label": `${kept} of ${drafted} guesses stood` },
    ...squares,
  );
}

/** The list of rejections, the newest first. */
export class Fallen {
  #parts;
  #owners;
  #tokens = 0;

  /**
   * @param {{list: HTMLElement, none: HTMLElement, count: HTMLElement}} parts
   * @param {Owners} owners
   */
  constructor(parts, owners) {
    this.#parts = parts;
    this.#owners = owners;
  }

  /**
   * @param {Rejection[]} rejections
   * @param {Sequence[]} sequences
   */
  add(rejections, sequences) {
    if (!rejections.length) return;
    const known = new Map(sequences.map((one) => [one.id, one]));
    const items = rejections.map((one) => this.#item(one, known.get(one.sequence))).reverse();
    this.#parts.list.prepend(...items);
    while (this.#parts.list.children.length > MOST) this.#parts.list.lastElementChild?.remove();
    this.#tokens += rejections.reduce((sum, one) => sum + one.drafted - one.kept, 0);
    this.#parts.none.hidden = true;
    say(this.#parts.count, `${counted(this.#tokens, "token")} since this page opened`);
  }

  /**
   * @param {Rejection} rejection
   * @param {Sequence | undefined} sequence
   */
  #item({ sequence: id, step, position, drafted, kept, source }, sequence) {
    const owner = sequence ?? { request_id: requestOf(id), choice: choiceOf(id) };
    const fell = drafted - kept;
    return make(
      "li",
      {},
      badge(this.#owners, owner),
      guesses(drafted, kept),
      make("span", {}, `${count(fell)} of ${count(drafted)} fell at position ${count(position)}`),
      make("span", { class: "faint" }, `from ${sourceName(source)}, step ${count(step)}`),
    );
  }
}

/**
 * The request of a sequence's id: what stands before the last slash.
 * @param {string} id
 */
function requestOf(id) {
  const slash = id.lastIndexOf("/");
  return slash < 0 ? id : id.slice(0, slash);
}

/**
 * The choice of a sequence's id: what stands behind the last slash.
 * @param {string} id
 */
function choiceOf(id) {
  const choice = Number(id.slice(id.lastIndexOf("/") + 1));
  return Number.isInteger(choice) ? choice : 0;
}
