/* Elements of pages. What users wrote becomes text nodes and nothing else. */

import { clamped } from "./numbers.js";

const STATUS_TIME = 4000; // milliseconds for which a status message is shown

const SVG = "http://www.w3.org/2000/svg";

/** Return a text on one line, with visible signs for invisible characters. */
export function visible(text) {
  if (text.trim() === "") return text.replace(/ /g, "␣").replace(/\s/g, "↵") || "∅";
  return text.replace(/[\r\n\u2028\u2029]/g, "↵").replace(/\p{Cc}/gu, (letter) => {
    const code = letter.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : "\ufffd";
  });
}

export function shortened(text, longest) {
  const letters = [...text];
  return letters.length > longest ? `${letters.slice(0, longest - 1).join("")}…` : text;
}

/** Return an element with these attributes and children; strings become text nodes.
    @template {keyof HTMLElementTagNameMap} Tag
    @param {Tag} tag
    @param {Record<string, any>} attributes
    @param {...(Node | string)} children */
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Return the drawing context of a canvas.
    @param {HTMLCanvasElement} canvas
    @param {CanvasRenderingContext2DSettings} [settings] */
export function brush(canvas, settings) {
  const paper = canvas.getContext("2d", settings);
  if (!paper) throw new Error("this browser cannot draw on a canvas");
  return paper;
}

/** Return a user's text for use inside a sentence, isolated from its text direction. */
export function quoted(text) {
  return make("bdi", {}, text);
}

export function colour(node, name) {
  return getComputedStyle(node).getPropertyValue(name);
}

/** Return a labelled select; `options` are pairs [value, text]. */
export function choice(label, options, chosen, changed) {
  const select = make("select", { "aria-label": label });
  for (const [value, text] of options) select.append(make("option", { value, dir: "auto" }, text));
  select.value = chosen;
  select.disabled = options.length < 2;
  select.addEventListener("change", () => changed(select.value));
  return make("label", { class: "choice" }, make("span", {}, label), select);
}

export function tick(label, ticked, changed) {
  const box = make("input", { type: "checkbox" });
  box.checked = ticked;
  box.addEventListener("change", () => changed(box.checked));
  return make("label", { class: "tick" }, box, label);
}

/** Return a button that runs `act` and shows its result, or its error, beside it. */
export function deed(label, act) {
  const status = make("span", { role: "status" });
  const button = make("button", { type: "button" }, label);
  button.addEventListener("click", async () => {
    status.textContent = await Promise.resolve()
      .then(act)
      .catch((error) => error.message);
    setTimeout(() => (status.textContent = ""), STATUS_TIME);
  });
  return make("span", { class: "deed" }, button, status);
}

/** Copy a text to the clipboard. */
export async function copied(text) {
  if (navigator.clipboard) await navigator.clipboard.writeText(text);
  else copiedBySelection(text); // pages from other machines without TLS have no clipboard
  return "copied";
}

function copiedBySelection(text) {
  const field = make("textarea", { "aria-hidden": "true", class: "unseen" });
  const focused = document.activeElement;
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  if (focused instanceof HTMLElement) focused.focus();
  if (!done) throw new Error("this browser does not allow pages to copy text");
}

/** Download a text as a file. */
export function saved(text, name, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), STATUS_TIME);
  return "saved";
}

/** Return the cell that an arrow key moves to on a grid, or null for other keys. */
export function moved(key, [row, column], [rows, columns]) {
  const places = {
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - 1],
    ArrowRight: [row, column + 1],
    Home: [row, 0],
    End: [row, columns - 1],
  };
  if (!(key in places)) return null;
  const [down, across] = places[key];
  return [clamped(down, 0, rows - 1), clamped(across, 0, columns - 1)];
}

/** Return an SVG element. */
export function drawn(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** Return a text without characters that XML does not allow. */
export function written(text) {
  return text.replace(/[\p{Cs}\ufffe\uffff]/gu, "\ufffd");
}

export function sameItems(some, others) {
  return some.length === others.length && some.every((one, i) => one === others[i]);
}

export function counted(items, name) {
  return `${items.length} ${name}${items.length === 1 ? "" : "s"}`;
}
