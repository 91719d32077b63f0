// Numbers and names as people read them.

const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 1, minimumFractionDigits: 1 });

/**
 * A count: 12,345.
 * @param {number} value
 */
export function count(value) {
  return whole.format(value);
}

/**
 * A count with its noun: 1 block, 2 blocks.
 * @param {number} value
 * @param {string} noun
 * @param {string} [plural]
 */
export function counted(value, noun, plural = `${noun}s`) {
  return `${count(value)} ${value === 1 ? noun : plural}`;
}

/**
 * A rate, with a tenth where it is small.
 * @param {number} value
 */
export function rate(value) {
  return value > 0 && value < 10 ? tenth.format(value) : count(value);
}

/**
 * A part of a whole in per cent; nothing of nothing is a dash.
 * @param {number} part
 * @param {number} all
 */
export function percent(part, all) {
  if (all <= 0) return "–";
  const value = (100 * part) / all;
  if (value > 0 && value < 0.1) return "< 0.1 %";
  return `${value > 0 && value < 10 ? tenth.format(value) : whole.format(value)} %`;
}

/**
 * A duration: 0.04 s, 3.2 s, 2 min 5 s.
 * @param {number} value
 */
export function seconds(value) {
  if (value < 1) return `${value.toFixed(2)} s`;
  if (value < 60) return `${value.toFixed(1)} s`;
  return `${Math.floor(value / 60)} min ${Math.floor(value % 60)} s`;
}

/**
 * Bytes: 1.5 GiB.
 * @param {number} value
 */
export function bytes(value) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let power = 0;
  while (value >= 1024 && power < units.length - 1) {
    value /= 1024;
    power += 1;
  }
  return `${power > 0 && value < 100 ? tenth.format(value) : count(value)} ${units[power]}`;
}

/**
 * A source of guesses in words.
 * @param {string} source
 */
export function sourceName(source) {
  const names = {
    prompt_lookup: "what was said before",
    prediction: "the prediction",
    draft_model: "the draft model",
    grammar: "the grammar",
  };
  return /** @type {Record<string, string>} */ (names)[source] ?? source;
}

/**
 * Positions as a range of whole numbers, both ends said.
 * @param {number} first
 * @param {number} stop Exclusive.
 */
export function positions(first, stop) {
  return stop - first === 1 ? `position ${count(first)}` : `positions ${count(first)} to ${count(stop - 1)}`;
}
