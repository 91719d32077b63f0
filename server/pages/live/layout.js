// Where blocks lie on the map: large squares for few, small ones for many, several blocks a square for very many.

const SIZES = [28, 24, 20, 18, 16, 14, 12, 10, 9, 8, 7, 6, 5];
const SMALLEST = 5;

/**
 * @typedef {object} Grid
 * @property {number} count How many blocks there are.
 * @property {number} per How many blocks a cell stands for.
 * @property {number} cells
 * @property {number} columns
 * @property {number} rows
 * @property {number} size Of a cell, in pixels, with the gap behind it.
 * @property {number} gap
 */

/**
 * The largest cells with which all blocks fit.
 * @param {number} count
 * @param {number} width In pixels.
 * @param {number} height The most there may be.
 * @returns {Grid}
 */
export function gridOf(count, width, height) {
  for (const size of SIZES) {
    const grid = gridWith(count, 1, size, width);
    if (grid.rows * size <= height) return grid;
  }
  const room = Math.max(1, Math.floor(width / SMALLEST) * Math.floor(height / SMALLEST));
  return gridWith(count, Math.ceil(count / room), SMALLEST, width);
}

/**
 * @param {number} count
 * @param {number} per
 * @param {number} size
 * @param {number} width
 * @returns {Grid}
 */
function gridWith(count, per, size, width) {
  const cells = Math.ceil(count / per);
  const columns = Math.max(1, Math.min(cells, Math.floor(width / size)));
  return { count, per, cells, columns, rows: Math.ceil(cells / columns), size, gap: size >= 12 ? 2 : 1 };
}

/**
 * The cell at a point, or null beside the map.
 * @param {Grid} grid
 * @param {number} x
 * @param {number} y
 */
export function cellAt(grid, x, y) {
  const column = Math.floor(x / grid.size);
  const cell = Math.floor(y / grid.size) * grid.columns + column;
  return x >= 0 && y >= 0 && column < grid.columns && cell < grid.cells ? cell : null;
}

/**
 * A cell's upper left corner.
 * @param {Grid} grid
 * @param {number} cell
 */
export function cornerOf(grid, cell) {
  return { x: (cell % grid.columns) * grid.size, y: Math.floor(cell / grid.columns) * grid.size };
}

/**
 * The blocks of a cell: from the first to before the second.
 * @param {Grid} grid
 * @param {number} cell
 * @returns {[number, number]}
 */
export function blocksOf(grid, cell) {
  return [cell * grid.per, Math.min(grid.count, (cell + 1) * grid.per)];
}

/**
 * Where a key moves the cursor, or null where it is no key of the map.
 * @param {Grid} grid
 * @param {number} cell
 * @param {string} key
 */
export function moved(grid, cell, key) {
  const page = grid.columns * 5;
  /** @type {Record<string, number>} */
  const moves = {
    ArrowLeft: -1,
    ArrowRight: 1,
    ArrowUp: -grid.columns,
    ArrowDown: grid.columns,
    PageUp: -page,
    PageDown: page,
  };
  if (key === "Home") return 0;
  if (key === "End") return grid.cells - 1;
  if (!(key in moves)) return null;
  const target = cell + moves[key];
  const inside = target >= 0 && target < grid.cells;
  if (inside) return target;
  return key.startsWith("Page") ? Math.max(0, Math.min(grid.cells - 1, target)) : cell;
}
