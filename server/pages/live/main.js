// The page: one stream of snapshots in, every part shown from it.

import { BlockMap } from "./map.js";
import { Chat } from "./chat.js";
import { describeSlots, describeUnits } from "./blocks.js";
import { at, make, say } from "./dom.js";
import { Fallen } from "./fallen.js";
import { Feed } from "./feed.js";
import { KeyForm, keyHeaders } from "./key.js";
import { Owners } from "./owners.js";
import { Places } from "./places.js";
import { Readings } from "./readings.js";
import { Requests } from "./requests.js";
import { Steps } from "./steps.js";
import { after, ALLOCATED, CACHED, SHARED, tally, tallyByGroup } from "./world.js";
import { bytes, count, counted, percent, seconds } from "./words.js";

/** @import {FeedState} from "./feed.js" */
/** @import {Snapshot} from "./types.js" */
/** @import {World} from "./world.js" */

const EVERY_SECONDS = 0.25;
const TICK_MILLISECONDS = 500;
const NARROW = "(max-width: 48rem)"; // where what the marks mean would push out of sight what they do

/** Puts the parts together and shows them what comes. */
class Page {
  /** @type {World | null} */
  #world = null;
  #owners = new Owners();
  #key = new KeyForm({ form: at("key"), field: at("secret"), why: at("key-why") }, () => this.#feed.start());
  #feed = new Feed({
    url: `ledger/events?every=${EVERY_SECONDS}`,
    headers: keyHeaders,
    onSnapshot: (snapshot) => this.#take(snapshot),
    onState: (state) => this.#tell(state),
  });
  #readings = new Readings(/** @type {HTMLElement} */ (at("readings").querySelector("dl")));
  #places = new Places(at("map-told"), keyHeaders);
  #steps = new Steps(
    {
      dialog: at("steps"),
      title: at("steps-title"),
      told: at("steps-told"),
      chart: at("steps-chart"),
      rows: /** @type {HTMLElement} */ (at("steps-table").querySelector("tbody")),
      close: at("steps-close"),
    },
    { headers: keyHeaders, owners: this.#owners },
  );
  #map = new BlockMap(at("map"), {
    owners: this.#owners,
    onCursor: (first, stop) => this.#describe(first, stop),
    onChosen: (unit) => this.#choose(unit),
  });
  #slots = new BlockMap(at("slot-map"), {
    owners: this.#owners,
    onCursor: (first, stop) => this.#describeSlots(first, stop),
    onChosen: () => {},
  });
  #requests = new Requests(
    {
      running: at("running"),
      more: at("running-more"),
      none: at("requests-none"),
      queue: at("queue"),
      parked: at("parked"),
      ended: at("ended"),
    },
    {
      owners: this.#owners,
      onSteps: (request, sequence) => this.#steps.open(request, sequence),
      onLight: (request) => this.#light(request),
    },
  );
  #fallen = new Fallen(
    {
      list: /** @type {HTMLElement} */ (at("fallen").querySelector("ol")),
      none: at("fallen-none"),
      count: at("fallen-count"),
    },
    this.#owners,
  );

  /** @type {Chat} */
  #chat = this.#offerChat();

  /** Open the stream, and let time pass. */
  begin() {
    if (matchMedia(NARROW).matches) at("legend").open = false;
    setInterval(() => this.#readings.tick(performance.now() / 1000), TICK_MILLISECONDS);
    this.#feed.start();
  }

  #offerChat() {
    return new Chat(
      {
        talk: at("talk"),
        none: at("talk-none"),
        told: at("chat-told"),
        form: at("ask"),
        question: at("question"),
        send: at("send"),
        stop: at("stop"),
        anew: at("chat-new"),
        fields: {
          temperature: at("temperature"),
          maxTokens: at("max-tokens"),
          seed: at("seed"),
          alternatives: at("alternatives"),
        },
        prediction: at("prediction"),
      },
      {
        headers: keyHeaders,
        model: () => this.#model(),
        onKey: () => this.#key.ask(),
        onSteps: (request) => this.#steps.open(request),
      },
    );
  }

  /** @param {Snapshot} snapshot */
  #take(snapshot) {
    if (snapshot.whole) this.#readings.reset();
    const world = after(this.#world, snapshot);
    this.#world = world;
    if (!world) return;
    this.#key.dismiss();
    this.#owners.meet(snapshot.sequences.map((one) => one.request_id));
    this.#readings.show(snapshot, performance.now() / 1000);
    this.#map.show(world.units);
    if (world.slots) this.#slots.show(world.slots);
    this.#requests.show(world);
    this.#fallen.add(snapshot.rejections, snapshot.sequences);
    this.#showCounts(world);
    this.#chat.look();
  }

  /** @param {World} world */
  #showCounts({ snapshot, info, units, slots }) {
    const { pool, running, waiting } = snapshot;
    say(at("model"), `${info.model}, ${info.layout}`);
    say(at("requests-count"), `${count(running)} running, ${count(waiting)} waiting`);
    say(
      at("cache-size"),
      `${counted(info.num_units, "block")} of ${counted(info.block_size, "position")}, ${bytes(info.num_units * info.unit_bytes)}`,
    );
    const states = { free: pool.free, allocated: pool.allocated, shared: pool.shared, cached: pool.cached };
    for (const [name, number] of Object.entries(states)) {
      const told = /** @type {Element} */ (at("cache-states").querySelector(`.${name}`))
        .closest("div")
        ?.querySelector("dd");
      if (told) say(told, `${count(number)} · ${percent(number, pool.capacity)}`);
    }
    say(at("map-per"), this.#map.per > 1 ? `Each square is ${this.#map.per} blocks.` : "Each square is a block.");
    at("groups").hidden = info.groups.length < 2;
    if (info.groups.length > 1) this.#showGroups(info.groups, tallyByGroup(units.codes, info.groups.length));
    at("slots").hidden = slots === null;
  }

  /**
   * @param {{layout: string}[]} groups
   * @param {number[][]} counts
   */
  #showGroups(groups, counts) {
    const rows = groups.map(({ layout }, group) => {
      const cells = [ALLOCATED, SHARED, CACHED].map((state) => make("td", {}, count(counts[group][state])));
      return make("tr", {}, make("th", { scope: "row" }, layout), ...cells);
    });
    at("groups")
      .querySelector("tbody")
      .replaceChildren(...rows);
  }

  /**
   * @param {number | null} first
   * @param {number} stop
   */
  #describe(first, stop) {
    const world = this.#world;
    if (!world) return;
    if (first === null) return this.#places.clear();
    const kept = stop - first === 1 && tally(world.units.codes.subarray(first, stop))[CACHED] === 1;
    this.#places.show(
      describeUnits(world, this.#owners, first, stop),
      kept || (world.info.show_text && stop - first === 1) ? first : null,
    );
    this.#requests.light(this.#map.focused ? this.#ownerOf(first) : null);
  }

  /**
   * @param {number | null} first
   * @param {number} stop
   */
  #describeSlots(first, stop) {
    if (this.#world) say(at("slot-told"), first === null ? "" : describeSlots(this.#world, this.#owners, first, stop));
  }

  /** @param {number} unit */
  #ownerOf(unit) {
    return this.#world?.units.holdings.get(unit)?.[0]?.sequence.request_id ?? null;
  }

  /** @param {number} unit */
  #choose(unit) {
    const sequence = this.#world?.units.holdings.get(unit)?.[0]?.sequence;
    if (sequence) this.#steps.open(sequence.request_id, sequence.id);
  }

  /** @param {string | null} request */
  #light(request) {
    this.#map.light(request);
    this.#slots.light(request);
  }

  async #model() {
    if (this.#world) return this.#world.info.model;
    const response = await fetch("v1/models", { headers: keyHeaders() });
    const body = await response.json().catch(() => null);
    return body?.data?.[0]?.id ?? "";
  }

  /** @param {FeedState} state */
  #tell(state) {
    if (state.kind === "key") this.#key.ask();
    at("link").dataset.state = state.kind;
    say(at("link-text"), said(state, this.#world));
    document.body.classList.toggle("stale", state.kind === "waiting" || state.kind === "key");
  }
}

/**
 * The state of the connection in words.
 * @param {FeedState} state
 * @param {World | null} world
 */
function said({ kind, why = "", seconds: wait = 0 }, world) {
  switch (kind) {
    case "live":
      return world && world.snapshot.server !== "ready" ? `Live; the server is ${world.snapshot.server}` : "Live";
    case "connecting":
      return "Connecting";
    case "hidden":
      return "Resting while this tab is hidden";
    case "key":
      return "Waiting for a key";
    default:
      return `${why} Trying again in ${seconds(wait)}.`;
  }
}

new Page().begin();
