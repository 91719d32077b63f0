// Elements, made and found. Whatever comes from elsewhere becomes text, never markup.

/**
 * The element with this id.
 * @param {string} id
 * @returns {any} The element, of the kind that the page has there.
 */
export function at(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no #${id}`);
  return found;
}

/**
 * An element with text or children, and attributes.
 * @param {string} tag
 * @param {Record<string, string>} [attributes]
 * @param {...(Node | string)} children Strings become text.
 * @returns {HTMLElement}
 */
export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/**
 * Set a text only where it differs, so that what listens to changes hears real ones.
 * @param {Node} node
 * @param {string} text
 */
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * An element of SVG.
 * @param {string} tag
 * @param {Record<string, string>} [attributes]
 * @param {...Node} children
 * @returns {SVGElement}
 */
export function draw(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
