// Server-sent events out of the body of a fetch: EventSource can't send a key.

/** @typedef {{name: string, data: string}} ServerEvent */

/** Cuts a stream of text into events, wherever its pieces end. */
export class EventParser {
  #rest = "";

  /**
   * The events that this piece of text completes.
   * @param {string} text
   * @returns {ServerEvent[]}
   */
  push(text) {
    const frames = (this.#rest + text).split(/\r?\n\r?\n/);
    this.#rest = /** @type {string} */ (frames.pop());
    return frames.map(eventOf).filter((event) => event !== null);
  }
}

/**
 * One frame as an event, or null if it holds nothing but comments.
 * @param {string} frame
 * @returns {ServerEvent | null}
 */
function eventOf(frame) {
  let name = "message";
  /** @type {string[]} */
  const data = [];
  for (const line of frame.split(/\r?\n/)) {
    const [field, value] = cut(line);
    if (field === "event") name = value;
    if (field === "data") data.push(value);
  }
  return data.length || name !== "message" ? { name, data: data.join("\n") } : null;
}

/**
 * A line's field and value. A comment has no field.
 * @param {string} line
 * @returns {[string, string]}
 */
function cut(line) {
  const colon = line.indexOf(":");
  if (colon < 0) return [line, ""];
  return [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
}

/**
 * The events of a body as they come; `heard` is called for every piece, comments included.
 * @param {ReadableStream<Uint8Array>} body
 * @param {() => void} [heard]
 * @returns {AsyncGenerator<ServerEvent>}
 */
export async function* eventsOf(body, heard = () => {}) {
  const parser = new EventParser();
  const decoder = /** @type {ReadableWritablePair<string, Uint8Array>} */ (new TextDecoderStream());
  const reader = body.pipeThrough(decoder).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    heard();
    yield* parser.push(part.value);
  }
}
