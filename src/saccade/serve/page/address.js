/* The state of the page in its address, so that it can be shared and reloaded.

It stands behind the #, which browsers do not send to the server. */

const LONGEST = 4000; // characters of the texts; longer ones are left out

/** @typedef {{ model: string, other: string, texts: string[] }} PageState */

/** Return the state in the address.
    @returns {PageState} */
export function readAddress() {
  const state = new URLSearchParams(location.hash.slice(1));
  return {
    model: state.get("model") ?? "",
    other: state.get("with") ?? "",
    texts: state.getAll("text"),
  };
}

/** Put the state into the address, without an entry in the history.
    @param {PageState} state */
export function writeAddress({ model, other, texts }) {
  const state = new URLSearchParams({ model });
  if (other) state.set("with", other);
  if (texts.some(Boolean) && texts.join("").length <= LONGEST) {
    for (const text of texts) state.append("text", text);
  }
  history.replaceState(null, "", `#${state}`);
}
