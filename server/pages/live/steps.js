// A request's steps, one by one, in a window of their own: a chart of its marks, and a table.

import { draw, make, say } from "./dom.js";
import { badge } from "./requests.js";
import { guesses } from "./fallen.js";
import { MARKS } from "./marks.js";
import { eventOf, happeningOf, leftOf, lineOf, spanOf, stairOf, stateOf } from "./story.js";
import { count, counted, seconds, sourceName } from "./words.js";

/** @import {Owners} from "./owners.js" */
/** @import {Happening, Step, Story} from "./types.js" */

const EVERY_MILLISECONDS = 1000;
const MOST_ROWS = 300;
const CHART = { width: 640, height: 150 };

/** The window. It reads on while it is open and the request runs. */
export class Steps {
  #parts;
  #headers;
  #owners;
  /** @type {number | undefined} */
  #timer;
  /** @type {{request: string, sequence: string | null} | null} */
  #shown = null;
  /** @type {Map<string, Story>} */
  #stories = new Map();
  #numShown = 0; // of the shown story's steps and events

  /**
   * @param {{dialog: HTMLDialogElement, title: HTMLElement, told: HTMLElement, chart: HTMLElement, rows: HTMLElement, close: HTMLElement}} parts
   * @param {{headers: () => Record<string, string>, owners: Owners}} options
   */
  constructor(parts, { headers, owners }) {
    this.#parts = parts;
    this.#headers = headers;
    this.#owners = owners;
    parts.close.addEventListener("click", () => parts.dialog.close());
    parts.dialog.addEventListener("close", () => this.#leave());
    parts.dialog.addEventListener("click", (event) => {
      if (event.target === parts.dialog) parts.dialog.close();
    });
  }

  /**
   * @param {string} request
   * @param {string | null} [sequence] The first of the request's where none is named.
   */
  open(request, sequence = null) {
    this.#leave();
    this.#shown = { request, sequence };
    this.#parts.title.replaceChildren(
      badge(this.#owners, { request_id: request, choice: 0 }),
      " Steps of ",
      make("span", { class: "id" }, request),
    );
    this.#parts.rows.replaceChildren();
    this.#parts.chart.replaceChildren();
    say(this.#parts.told, "Reading.");
    this.#parts.dialog.showModal();
    this.#read();
  }

  #leave() {
    clearTimeout(this.#timer);
    this.#shown = null;
    this.#stories = new Map();
    this.#numShown = 0;
  }

  async #read() {
    const shown = this.#shown;
    if (!shown) return;
    const stories = await readStories(shown.request, this.#headers(), this.#last()).catch(() => null);
    if (this.#shown !== shown) return;
    if (!stories) {
      if (!this.#stories.size)
        say(
          this.#parts.told,
          "Its steps are not kept. They are while a page like this one is open, and for a minute after.",
        );
    } else {
      this.#take(stories);
    }
    if (!stories || [...this.#stories.values()].some((story) => story.ended === null)) {
      this.#timer = setTimeout(() => this.#read(), EVERY_MILLISECONDS);
    }
  }

  #last() {
    return Math.max(0, ...[...this.#stories.values()].map((story) => story.steps.at(-1)?.step ?? 0));
  }

  /** @param {Story[]} stories Whose steps are those behind the ones known, and whose events are the last. */
  #take(stories) {
    for (const story of stories) {
      const { steps, events } = this.#stories.get(story.sequence) ?? { steps: [], events: [] };
      const known = events.at(-1)?.number ?? 0;
      this.#stories.set(story.sequence, {
        ...story,
        steps: steps.concat(story.steps),
        events: events.concat(story.events.filter(({ number }) => number > known)),
      });
    }
    const chosen = this.#stories.get(this.#shown?.sequence ?? "") ?? this.#stories.values().next().value;
    if (chosen) this.#show(chosen);
  }

  /** @param {Story} story */
  #show(story) {
    say(this.#parts.told, summary(story));
    if (story.steps.length) this.#parts.chart.replaceChildren(chart(story));
    const line = lineOf(story);
    const next = Math.max(this.#numShown, line.length - MOST_ROWS);
    /** @type {Step | undefined} */
    let before;
    line.forEach((one, index) => {
      if (index >= next) this.#parts.rows.append(rowOf(one, before, story, one.time - line[0].time));
      if ("step" in one) before = one;
    });
    this.#numShown = line.length;
    while (this.#parts.rows.children.length > MOST_ROWS) this.#parts.rows.firstElementChild?.remove();
  }
}

/**
 * The stories of a request's sequences, or an error where they are not known.
 * @param {string} request
 * @param {Record<string, string>} headers
 * @param {number} [after] Only steps with numbers above this.
 * @returns {Promise<Story[]>}
 */
export async function readStories(request, headers, after = 0) {
  const response = await fetch(`ledger/${encodeURIComponent(request)}/steps?after=${after}`, {
    headers,
    cache: "no-store",
  });
  if (!response.ok) throw new Error(String(response.status));
  return (await response.json()).sequences;
}

/** @param {Story} story */
function summary(story) {
  const { steps, events, complete, prompt_tokens, cached_tokens } = story;
  const parts = [counted(steps.length, "step")];
  if (!complete) parts.push("those before this page looked are missing");
  if (prompt_tokens !== null)
    parts.push(`prompt ${counted(prompt_tokens, "token")}, ${count(cached_tokens ?? 0)} found in the cache`);
  const drafted = steps.reduce((sum, step) => sum + step.drafted, 0);
  if (drafted)
    parts.push(`${count(steps.reduce((sum, step) => sum + step.kept, 0))} of ${count(drafted)} guessed tokens stood`);
  parts.push(stateOf(story));
  if (steps.length + events.length > MOST_ROWS) parts.push(`the last ${MOST_ROWS} are shown`);
  return `${parts.join("; ")}.`;
}

/** @param {Story} story With a step. */
function chart(story) {
  const { steps } = story;
  const top = Math.max(...steps.map((step) => Math.max(step.planned, step.accepted)));
  const bottom = Math.min(top - 1, ...steps.map((step) => Math.min(step.computed, step.chunk[0])));
  const { start, stop, within } = spanOf(story);
  const frame = { ...CHART, bottom, top, start, stop };
  const ticks = within.map((one) => tick(one, leftOf(one.time, frame)));
  const lines = MARKS.map((mark) =>
    draw("path", { class: `stair ${mark}`, d: stairOf(steps, (step) => step[mark], frame) }),
  );
  const label = `The four marks over ${seconds(stop - start)}, from position ${count(bottom)} to ${count(top)}`;
  const picture = draw(
    "svg",
    {
      viewBox: `-4 -4 ${CHART.width + 8} ${CHART.height + 8}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": label,
    },
    ...ticks,
    ...lines,
  );
  const names = MARKS.map((mark) => make("span", {}, make("i", { class: `lane ${mark}` }), mark));
  const kinds = new Set(within.map(({ event }) => KINDS[event] ?? "goes"));
  names.push(...[...kinds].map((kind) => make("span", {}, make("i", { class: `tick ${kind}` }), KIND_NAMES[kind])));
  return make("figure", {}, picture, make("figcaption", {}, ...names, make("span", { class: "faint" }, label)));
}

/** @type {Record<string, string>} What an event does to a sequence; the others let it go on. */
const KINDS = { preempted: "stops", paused: "stops", parked: "stops", ended: "ends" };
/** @type {Record<string, string>} */
const KIND_NAMES = { goes: "comes or goes on", stops: "stops", ends: "ends" };

/**
 * Where something befell the sequence, as a line from top to bottom.
 * @param {Happening} happening
 * @param {string} left
 */
function tick(happening, left) {
  const told = draw("title", {}, document.createTextNode(happeningOf(happening)));
  return draw("path", { class: `tick ${KINDS[happening.event] ?? "goes"}`, d: `M${left} 0V${CHART.height}` }, told);
}

/**
 * A row of the table: a step, or what befell the sequence between two.
 * @param {Step | Happening} one
 * @param {Step | undefined} before The step before.
 * @param {Story} story
 * @param {number} age Seconds since the story began.
 */
function rowOf(one, before, { prompt_tokens }, age) {
  if ("step" in one) return stepRow(one, before, prompt_tokens, age);
  const told = make("td", { colspan: String(MARKS.length + 3) }, happeningOf(one));
  return make("tr", { class: "event", "data-event": one.event }, make("td"), make("td", {}, seconds(age)), told);
}

/**
 * @param {Step} step
 * @param {Step | undefined} before
 * @param {number | null} prompt
 * @param {number} age
 */
function stepRow(step, before, prompt, age) {
  const { chunk, drafted, kept, source } = step;
  const drafts = make("td");
  if (drafted) drafts.append(guesses(drafted, kept), make("span", { class: "faint" }, ` ${sourceName(source)}`));
  const happened = make("td", {}, eventOf(step, before, prompt));
  if (step.chosen) happened.prepend(make("q", {}, step.chosen.text), " ");
  if (step.drafts && kept < drafted) happened.append(" guessed ", make("q", { class: "fell" }, step.drafts.text));
  const cells = [
    count(step.step),
    seconds(age),
    `${count(chunk[0])} to ${count(chunk[1] - 1)}`,
    ...MARKS.map((mark) => count(step[mark])),
  ];
  const made = make("tr", {}, ...cells.map((text) => make("td", {}, text)), drafts, happened);
  if (kept < drafted) made.classList.add("fell");
  return made;
}
