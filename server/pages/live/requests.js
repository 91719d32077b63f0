// The requests that run: one card each, with four bars that move; those that wait, were left, or ended.

import { cellsOf, MARKS, NUM_CELLS, reach } from "./marks.js";
import { nameOf } from "./blocks.js";
import { make, say } from "./dom.js";
import { happeningOf } from "./story.js";
import { count, counted, seconds } from "./words.js";

/** @import {Owners} from "./owners.js" */
/** @import {Ended, Sequence, Snapshot} from "./types.js" */
/** @import {World} from "./world.js" */

const MOST_ENDED = 8;

/** Cards by sequence, made and removed as sequences come and go. */
export class Requests {
  #parts;
  #owners;
  #actions;
  /** @type {Map<string, Card>} */
  #cards = new Map();
  /** @type {{sequence: Sequence, how: Ended | undefined}[]} */
  #ended = [];

  /**
   * @param {{running: HTMLElement, more: HTMLElement, none: HTMLElement, queue: HTMLElement, parked: HTMLElement, ended: HTMLElement}} parts
   * @param {object} options
   * @param {Owners} options.owners
   * @param {(request: string, sequence: string) => void} options.onSteps
   * @param {(request: string | null) => void} options.onLight
   */
  constructor(parts, { owners, onSteps, onLight }) {
    this.#parts = parts;
    this.#owners = owners;
    this.#actions = { onSteps, onLight };
  }

  /** @param {World} world */
  show(world) {
    const { sequences, time, unlisted } = world.snapshot;
    const active = sequences.filter(isActive);
    const idle = (/** @type {string} */ state) => sequences.filter((one) => one.state === state);
    this.#retire(world.snapshot);
    for (const sequence of active) this.#card(sequence).show(sequence, sizeOf(world, sequence), time);
    this.#parts.none.hidden = sequences.length > 0;
    this.#parts.running.classList.toggle("dense", active.length > 6);
    const hidden = unlisted.running + unlisted.paused;
    this.#parts.more.hidden = hidden === 0;
    say(this.#parts.more, andMore(hidden));
    this.#list(this.#parts.queue, idle("waiting"), unlisted.waiting, time);
    this.#list(this.#parts.parked, idle("parked"), unlisted.parked, time);
  }

  /**
   * Mark the cards of one request.
   * @param {string | null} request
   */
  light(request) {
    for (const card of this.#cards.values()) card.element.classList.toggle("lit", card.request === request);
  }

  /** @param {Sequence} sequence */
  #card(sequence) {
    const known = this.#cards.get(sequence.id);
    if (known) return known;
    const card = new Card(sequence, this.#owners, this.#actions);
    this.#cards.set(sequence.id, card);
    this.#parts.running.append(card.element);
    return card;
  }

  /**
   * Take away the cards of those that run no more. One that is not told of has ended, unless it may be among the unlisted.
   * @param {Snapshot} snapshot
   */
  #retire({ sequences, ended, unlisted }) {
    const present = new Map(sequences.map((one) => [one.id, one]));
    const ends = new Map(ended.map((one) => [one.sequence, one]));
    const all = Object.values(unlisted).every((number) => number === 0);
    for (const [id, card] of this.#cards) {
      const now = present.get(id);
      if (now && isActive(now)) continue;
      card.element.remove();
      this.#cards.delete(id);
      const how = ends.get(id);
      if (how || (!now && all)) this.#ended = [{ sequence: card.sequence, how }, ...this.#ended].slice(0, MOST_ENDED);
      this.#showEnded();
    }
  }

  /**
   * Show sequences that nothing is computed for in a list of few words each.
   * @param {HTMLElement} part
   * @param {Sequence[]} sequences
   * @param {number} more How many there are beside these.
   * @param {number} time
   */
  #list(part, sequences, more, time) {
    part.hidden = sequences.length === 0;
    const list = /** @type {HTMLElement} */ (part.querySelector("ol"));
    list.replaceChildren(...sequences.map((one) => this.#idleItem(one, time)));
    if (more) list.append(make("li", { class: "more" }, andMore(more)));
  }

  /**
   * @param {Sequence} sequence
   * @param {number} time
   */
  #idleItem(sequence, time) {
    const { accepted, arrived, priority, request_id } = sequence;
    const said = [counted(accepted, "token"), seconds(Math.max(0, time - arrived))];
    if (priority) said.push(`priority ${priority}`);
    return make("li", { title: request_id }, badge(this.#owners, sequence), ` ${said.join(", ")}`);
  }

  #showEnded() {
    this.#parts.ended.hidden = this.#ended.length === 0;
    const list = /** @type {HTMLElement} */ (this.#parts.ended.querySelector("ul"));
    list.replaceChildren(...this.#ended.map((one) => this.#endedItem(one)));
  }

  /** @param {{sequence: Sequence, how: Ended | undefined}} ended */
  #endedItem({ sequence, how }) {
    const button = make("button", { type: "button" }, "Steps");
    button.addEventListener("click", () => this.#actions.onSteps(sequence.request_id, sequence.id));
    button.setAttribute("aria-label", `Steps of ${nameOf(this.#owners, sequence)}`);
    return make(
      "li",
      {},
      badge(this.#owners, sequence),
      make("span", { class: "id", title: sequence.request_id }, sequence.request_id),
      make("span", {}, `${counted(sequence.accepted, "token")} when last seen`),
      ...(how ? [make("span", {}, happeningOf({ ...how, event: "ended" }))] : []),
      button,
    );
  }
}

/**
 * How many more there are than are shown.
 * @param {number} number
 */
function andMore(number) {
  return `and ${count(number)} more`;
}

/**
 * Whether it has a card: it runs, or did until its reader became slow.
 * @param {Sequence} sequence
 */
function isActive({ state }) {
  return state !== "waiting" && state !== "parked";
}

/**
 * A request's letter on its colour.
 * @param {Owners} owners
 * @param {{request_id: string, choice: number}} sequence
 */
export function badge(owners, sequence) {
  return make(
    "b",
    { class: "badge", "data-hue": String(owners.of(sequence.request_id).hue) },
    nameOf(owners, sequence),
  );
}

/** One sequence: who it is, its four marks as bars, and the positions around `computed`. */
class Card {
  /** @type {HTMLElement} */
  element;
  /** @type {Sequence} */
  sequence;
  #state = make("span", { class: "state" });
  #about = make("p", { class: "about" });
  #bars = MARKS.map((mark) => new Bar(mark));
  #prompt = make("i", { class: "prompt" });
  #cells = Array.from({ length: NUM_CELLS }, () => make("i", { class: "cell free" }));
  #from = make("span", { class: "from" });

  /**
   * @param {Sequence} sequence
   * @param {Owners} owners
   * @param {{onSteps: (request: string, sequence: string) => void, onLight: (request: string | null) => void}} actions
   */
  constructor(sequence, owners, { onSteps, onLight }) {
    this.sequence = sequence;
    const name = nameOf(owners, sequence);
    const steps = make("button", { type: "button", "aria-label": `Steps of ${name}` }, "Steps");
    steps.addEventListener("click", () => onSteps(sequence.request_id, sequence.id));
    const id = make("span", { class: "id", title: sequence.request_id }, sequence.request_id);
    const head = make("div", { class: "head" }, badge(owners, sequence), id, this.#state, steps);
    const lanes = make("div", { class: "lanes" }, ...this.#bars.map((bar) => bar.element), this.#prompt);
    const strip = make("div", { class: "strip", "aria-hidden": "true" }, this.#from, ...this.#cells);
    this.element = make(
      "li",
      { class: "card", "data-hue": String(owners.of(sequence.request_id).hue) },
      head,
      lanes,
      strip,
      this.#about,
    );
    this.element.addEventListener("pointerenter", () => onLight(sequence.request_id));
    this.element.addEventListener("pointerleave", () => onLight(null));
    this.element.addEventListener("focusin", () => onLight(sequence.request_id));
    this.element.addEventListener("focusout", () => onLight(null));
  }

  get request() {
    return this.sequence.request_id;
  }

  /**
   * @param {Sequence} sequence
   * @param {number} blocks How many it holds.
   * @param {number} time The snapshot's.
   */
  show(sequence, blocks, time) {
    this.sequence = sequence;
    const end = reach(sequence);
    MARKS.forEach((mark, index) => this.#bars[index].show(sequence[mark], end));
    this.#prompt.style.setProperty("--at", String(Math.min(1, sequence.prompt_tokens / end)));
    this.element.dataset.state = sequence.state;
    say(this.#state, sequence.state);
    say(this.#about, about(sequence, blocks, time - sequence.arrived));
    this.#showCells(sequence);
  }

  /** @param {Sequence} sequence */
  #showCells(sequence) {
    const cells = cellsOf(sequence);
    say(this.#from, count(cells[0].position));
    cells.forEach(({ kind, prompt }, index) => {
      const name = `cell ${kind}${prompt ? " prompted" : ""}`;
      if (this.#cells[index].className !== name) this.#cells[index].className = name;
    });
  }
}

/** One mark's bar with its name and number. */
class Bar {
  element;
  #fill = make("i", { class: "fill" });
  #number = make("span", { class: "number" });

  /** @param {string} mark */
  constructor(mark) {
    const track = make("span", { class: "track" }, this.#fill);
    this.element = make("div", { class: `bar ${mark}` }, make("span", { class: "name" }, mark), track, this.#number);
  }

  /**
   * @param {number} value
   * @param {number} end
   */
  show(value, end) {
    this.#fill.style.transform = `translateX(${100 * (Math.min(1, value / end) - 1)}%)`;
    say(this.#number, count(value));
  }
}

/**
 * How many blocks a sequence holds.
 * @param {World} world
 * @param {Sequence} sequence
 */
function sizeOf(world, sequence) {
  return (world.tables.get(sequence.id) ?? []).reduce((sum, table) => sum + table.units.length, 0);
}

/**
 * A sequence in a line.
 * @param {Sequence} sequence
 * @param {number} blocks
 * @param {number} age
 */
function about({ prompt_tokens, cached_tokens, output_tokens, slot }, blocks, age) {
  const found = cached_tokens ? ` (${count(cached_tokens)} found in the cache)` : "";
  const place = slot === undefined || slot === null ? "" : `, slot ${count(slot)}`;
  return `prompt ${count(prompt_tokens)}${found}, answer ${count(output_tokens)}, ${counted(blocks, "block")}${place}, ${seconds(Math.max(0, age))}`;
}
