/* The view of attention records: show(element, inputs, options).

`inputs` is what view_inputs in view.py returns: for each input, the record of each model.
`fromRecord(name, record)` converts a record as AttentionRecord.to_json writes it.
A selection is a word or token of one side, { side: "wrote" | "read", index, labels }, or null.

What users wrote becomes text nodes and nothing else. */

import { choice, make, sameItems, tick } from "./dom.js";
import { isPacked } from "./numbers.js";
import { Panel } from "./panel.js";
import { bitmapOf, summary } from "./sides.js";
import { whyHint } from "./why.js";

const viewers = new WeakMap(); // the newest viewer of each element

/** Show the inputs inside the element and replace its content when they are ready. Earlier choices
    are kept: words or tokens and, if the layers are the same, layer and head.
    @param {HTMLElement} element
    @param {import("./sides.js").Model[][]} inputs
    @param {{ live?: boolean }} [options] `live`: the page has a model that scores other answers */
export async function show(element, inputs, { live = false } = {}) {
  const viewer = new Viewer(element, inputs, { before: viewers.get(element), live });
  viewers.set(element, viewer);
  element.setAttribute("aria-busy", "true");
  element.style.minHeight = `${element.offsetHeight}px`; // the page keeps its place meanwhile
  try {
    await viewer.open(0);
  } catch (error) {
    if (!viewer.isLast) return;
    element.replaceChildren(
      make("p", { role: "alert" }, `This record cannot be shown: ${error.message}`),
    );
  }
  if (!viewer.isLast) return;
  element.style.minHeight = "";
  element.setAttribute("aria-busy", "false");
}

/** Return whether to begin with words: not for an image alone, which may have a class token, nor if
    the text that is read is one word, such as one to pronounce. */
function wordsFirst({ read, wrote }) {
  if (read.kind === "image") return wrote !== null;
  return read.words.length > 1 || read.tokens.length < 3;
}

/** All inputs: the choice among them, the settings of all panels, and the selection. */
class Viewer {
  /** @param {HTMLElement} element
      @param {import("./sides.js").Model[][]} inputs
      @param {{ before: any, live: boolean }} options `before`: the viewer that this one replaces */
  constructor(element, inputs, { before, live }) {
    this.element = element;
    this.inputs = inputs;
    this.panels = [];
    this.hovered = null;
    this.pinned = null;
    this.changed = { ...before?.changed }; // settings that the reader chose
    const first = inputs[0]?.[0];
    this.settings = { words: !first || wordsFirst(first), cover: true, ...this.changed };
    const again = before && sameItems(layersOf(before.inputs), layersOf(inputs));
    this.chosen = again ? before.choices() : []; // layer and head of each panel
    this.row = make("div", { class: "panels" });
    const scored = inputs.flat().some(({ scores }) => scores);
    const hint = live || scored ? [] : [whyHint()];
    this.root = make("div", {}, this.toolbar(), this.row, ...hint, this.note());
    this.listen();
  }

  /** Whether this is the newest viewer of its element. */
  get isLast() {
    return viewers.get(this.element) === this;
  }

  choices() {
    return this.panels.length ? this.panels.map(({ chosen }) => chosen) : this.chosen;
  }

  listen() {
    this.root.addEventListener("keydown", (event) => event.key === "Escape" && this.unpin());
    const dark = matchMedia("(prefers-color-scheme: dark)");
    const repaint = () => {
      if (this.root.isConnected) this.paint();
      else dark.removeEventListener("change", repaint);
    };
    dark.addEventListener("change", repaint);
  }

  toolbar() {
    const bar = make("div", { class: "controls" });
    if (this.inputs.length > 1) {
      const titles = this.inputs.map(([model], i) => [i, `${i + 1}. ${summary(model)}`]);
      bar.append(choice("Example", titles, 0, (value) => this.open(Number(value))));
    }
    const sides = this.inputs.flat().flatMap(({ read, wrote }) => [read, wrote ?? read]);
    if (sides.some(({ kind }) => kind === "text")) {
      const kinds = [
        ["words", "words"],
        ["tokens", "tokens"],
      ];
      const chosen = this.settings.words ? "words" : "tokens";
      bar.append(choice("Show", kinds, chosen, (value) => this.set({ words: value === "words" })));
    }
    if (sides.some(({ kind }) => kind === "image")) {
      const { cover } = this.settings;
      bar.append(tick("show attention over the image", cover, (covered) => this.cover(covered)));
    }
    return bar;
  }

  note() {
    const layers = this.inputs.flat().flatMap((model) => model.layers);
    const packed =
      "Weights are stored in 8 bits: the error is at most 1/510 of the largest weight in the row " +
      "or 0.00013, whichever is larger.";
    return make(
      "p",
      { class: "note" },
      "Point at a word, or move through the words with the arrow keys, to see what it attends to ",
      "and what attends to it. Click to pin a word, press Escape to unpin it. Shades are relative to ",
      "uniform attention: a flat map looks flat. ",
      layers.some(({ weights }) => isPacked(weights)) ? packed : "Weights have five decimals.",
    );
  }

  set(changed) {
    Object.assign(this.changed, changed);
    Object.assign(this.settings, changed);
    return this.open(this.opened);
  }

  cover(covered) {
    this.changed.cover = this.settings.cover = covered;
    for (const panel of this.panels) panel.cover(covered);
  }

  /** Show the input with this number, keeping the layers and heads chosen before. */
  async open(number) {
    this.opened = number;
    const before = this.choices();
    const models = this.inputs[number] ?? [];
    const panels = await Promise.all(models.map((model) => this.panel(model)));
    if (this.opened !== number || !this.isLast) return; // another was opened meanwhile
    this.panels = panels;
    this.hovered = null;
    this.pinned = this.firstSelection();
    this.row.replaceChildren(...panels.map(({ element }) => element));
    if (!this.root.isConnected) this.element.replaceChildren(this.root);
    await Promise.all(panels.map((one, i) => one.begin(before[i] ?? { layer: null, head: null })));
    this.paint();
  }

  async panel(model) {
    const wrote = model.wrote ?? model.read;
    const bitmaps = { read: await bitmapOf(model.read), wrote: await bitmapOf(wrote) };
    return new Panel(model, this.settings, this, bitmaps);
  }

  /** Select the class token of an image, from which its answer is read. */
  firstSelection() {
    const wrote = this.panels[0]?.units.wrote;
    return wrote?.first ? { side: "wrote", index: 0, labels: wrote.labels } : null;
  }

  over(selection) {
    this.hovered = selection;
    this.paint();
  }

  pin(selection) {
    const same = this.pinned?.side === selection.side && this.pinned.index === selection.index;
    this.pinned = same ? null : selection;
    this.paint();
  }

  unpin() {
    this.pinned = null;
    this.over(null);
  }

  paint() {
    const selection = this.hovered ?? this.pinned;
    const same = (one, other) => one?.side === other?.side && one?.index === other?.index;
    const pinned = this.pinned !== null && same(selection, this.pinned);
    for (const panel of this.panels) panel.paint(selection, pinned);
  }
}

/** Return the names of all layers of the first input. */
function layersOf(inputs) {
  return (inputs[0] ?? []).flatMap(({ layers }) => ["", ...layers.map(({ name }) => name)]);
}
