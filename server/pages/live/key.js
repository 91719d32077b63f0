// The API key: asked for when the server wants one, kept for this tab alone.

const NAME = "tidemark-key";

/** The headers that carry the key, if there is one. */
export function keyHeaders() {
  const key = sessionStorage.getItem(NAME);
  return /** @type {Record<string, string>} */ (key ? { authorization: `Bearer ${key}` } : {});
}

/** Whether a key is kept. */
export function hasKey() {
  return sessionStorage.getItem(NAME) !== null;
}

/** The form that asks for a key. */
export class KeyForm {
  #form;
  #field;
  #why;

  /**
   * @param {{form: HTMLFormElement, field: HTMLInputElement, why: HTMLElement}} parts
   * @param {() => void} given Called once a key was given.
   */
  constructor({ form, field, why }, given) {
    this.#form = form;
    this.#field = field;
    this.#why = why;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem(NAME, field.value.trim());
      given();
    });
  }

  /** Ask, and say whether the key that was given is wrong. */
  ask() {
    this.#why.textContent = hasKey()
      ? "This server does not know that key. Try another."
      : "This server asks for a key.";
    this.#form.hidden = false;
    this.#field.setAttribute("aria-invalid", String(hasKey()));
    this.#field.select();
    this.#field.focus();
  }

  /** The key was right, or none is needed. */
  dismiss() {
    this.#form.hidden = true;
    this.#field.value = "";
  }
}
