// A map: every place of the cache as a square, with a cursor that describes the one it stands on.

import { blocksOf, cellAt, gridOf, moved } from "./layout.js";
import { coloursOf, Painter } from "./paint.js";

/** @import {Grid} from "./layout.js" */
/** @import {Owners} from "./owners.js" */
/** @import {Colours} from "./paint.js" */
/** @import {Field} from "./world.js" */

const TALLEST = 340; // pixels: the map stays in sight beside what it explains
/** Draws the map and follows pointer and keys. */
export class BlockMap {
  #canvas;
  #owners;
  #onCursor;
  #onChosen;
  /** @type {Field | null} */
  #field = null;
  /** @type {Grid} */
  #grid = gridOf(1, 1, 1);
  /** @type {Colours} */
  #colours;
  /** @type {number | null} */
  #cursor = null;
  #focused = false;
  /** @type {string | null} */
  #lit = null;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {object} options
   * @param {Owners} options.owners
   * @param {(first: number | null, stop: number) => void} options.onCursor Which places the cursor stands on.
   * @param {(block: number) => void} options.onChosen
   */
  constructor(canvas, { owners, onCursor, onChosen }) {
    this.#canvas = canvas;
    this.#owners = owners;
    this.#onCursor = onCursor;
    this.#onChosen = onChosen;
    this.#colours = coloursOf(canvas);
    this.#followPointer();
    this.#followKeys();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.#colours = coloursOf(canvas);
      this.#draw();
    });
    new ResizeObserver(() => this.#lay()).observe(/** @type {Element} */ (canvas.parentElement));
  }

  /** How many places a square stands for. */
  get per() {
    return this.#grid.per;
  }

  /** Whether keys move the cursor now. */
  get focused() {
    return this.#focused;
  }

  /** @param {Field} field */
  show(field) {
    const resized = this.#field?.codes.length !== field.codes.length;
    this.#field = field;
    if (resized) this.#lay();
    else this.#draw();
    this.#tell();
  }

  /**
   * Let one request's blocks stand out, or all alike.
   * @param {string | null} request
   */
  light(request) {
    if (this.#lit === request) return;
    this.#lit = request;
    this.#draw();
  }

  // -- where it is

  #followPointer() {
    this.#canvas.addEventListener("pointermove", (event) =>
      this.#move(cellAt(this.#grid, event.offsetX, event.offsetY)),
    );
    this.#canvas.addEventListener("pointerdown", (event) =>
      this.#move(cellAt(this.#grid, event.offsetX, event.offsetY)),
    );
    this.#canvas.addEventListener("pointerleave", (event) => {
      if (!this.#focused && event.pointerType === "mouse") this.#move(null);
    });
    this.#canvas.addEventListener("dblclick", () => this.#choose());
  }

  #followKeys() {
    this.#canvas.addEventListener("focus", () => {
      this.#focused = true;
      this.#move(this.#cursor ?? 0);
    });
    this.#canvas.addEventListener("blur", () => {
      this.#focused = false;
      this.#draw();
    });
    this.#canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Enter") {
        event.preventDefault(); // what opens has the focus by then, and would be pressed
        return this.#choose();
      }
      const target = moved(this.#grid, this.#cursor ?? 0, event.key);
      if (target === null) return;
      event.preventDefault();
      this.#move(target);
    });
  }

  /** @param {number | null} cell */
  #move(cell) {
    if (cell === this.#cursor) return;
    this.#cursor = cell;
    this.#draw();
    this.#tell();
  }

  #tell() {
    if (this.#cursor === null) this.#onCursor(null, 0);
    else this.#onCursor(...blocksOf(this.#grid, this.#cursor));
  }

  #choose() {
    if (this.#cursor !== null) this.#onChosen(blocksOf(this.#grid, this.#cursor)[0]);
  }

  // -- what it looks like

  #lay() {
    const width = Math.floor(/** @type {Element} */ (this.#canvas.parentElement).clientWidth);
    const count = this.#field?.codes.length ?? 0;
    if (!count || !width) return;
    this.#grid = gridOf(count, width, TALLEST);
    if (this.#cursor !== null && this.#cursor >= this.#grid.cells) this.#cursor = null;
    const { columns, rows, size } = this.#grid;
    const scale = window.devicePixelRatio || 1;
    this.#canvas.width = Math.ceil(columns * size * scale);
    this.#canvas.height = Math.ceil(rows * size * scale);
    this.#canvas.style.width = `${columns * size}px`;
    this.#canvas.style.height = `${rows * size}px`;
    this.#draw();
  }

  #draw() {
    const pen = this.#canvas.getContext("2d");
    const field = this.#field;
    if (!pen || !field) return;
    const scale = window.devicePixelRatio || 1;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, this.#canvas.width, this.#canvas.height);
    const scene = { field, grid: this.#grid, colours: this.#colours, owners: this.#owners, lit: this.#lit };
    const painter = new Painter(pen, scene);
    for (let cell = 0; cell < this.#grid.cells; cell += 1) painter.cell(cell);
    if (this.#cursor !== null) painter.cursor(this.#cursor);
  }
}
