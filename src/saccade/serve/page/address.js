/* The state of the page in its address, so that it can be shared and reloaded.

It stands behind the #, which browsers do not send to the server. */

const LONGEST = 4000; // characters of the texts; longer ones are left out
const OPTION = "option.";

/** @typedef {{
      model: string,
      others: string[],
      texts: string[],
      options: Record<string, string>,
    }} PageState */

/** Return the state that the part of an address behind the # holds.
    @param {string} hash
    @returns {PageState} */
export function stateOf(hash) {
  const state = new URLSearchParams(hash.replace(/^#/, ""));
  const options = [...state].filter(([name]) => name.startsWith(OPTION));
  return {
    model: state.get("model") ?? "",
    others: state.getAll("with").filter(Boolean),
    texts: state.getAll("text"),
    options: Object.fromEntries(options.map(([name, value]) => [name.slice(OPTION.length), value])),
  };
}

/** Return the part of an address behind the # for a state.
    @param {PageState} state */
export function hashOf({ model, others, texts, options }) {
  const state = new URLSearchParams({ model });
  for (const other of others) state.append("with", other);
  if (texts.some(Boolean) && texts.join("").length <= LONGEST) {
    for (const text of texts) state.append("text", text);
  }
  for (const [name, value] of Object.entries(options)) state.append(OPTION + name, value);
  return `#${state}`;
}

/** Put the state into the address, without an entry in the history.
    @param {PageState} state */
export function writeAddress(state) {
  history.replaceState(null, "", hashOf(state));
}
