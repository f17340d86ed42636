/* Elements of index.html that scripts read or change, by their ids. */

/** @typedef {{
      answers: HTMLElement,
      chips: HTMLElement,
      deeds: HTMLElement,
      examples: HTMLElement,
      fields: HTMLElement,
      go: HTMLButtonElement,
      input: HTMLElement,
      looked: HTMLElement,
      model: HTMLSelectElement,
      options: HTMLElement,
      others: HTMLElement,
      stop: HTMLButtonElement,
      token: HTMLElement,
      "token-field": HTMLInputElement,
      "token-said": HTMLElement,
      trouble: HTMLElement,
      view: HTMLElement,
      work: HTMLElement,
    }} Parts */

/** @template {keyof Parts} Id
    @param {Id} id
    @returns {Parts[Id]} */
export function at(id) {
  return /** @type {any} */ (document.getElementById(id));
}
