import { choice, counted, make, quoted, sameItems, visible } from "./dom.js";
import { ImageView } from "./image_view.js";
import { LinesView } from "./lines_view.js";
import { MapView } from "./map_view.js";
import { Layers, shown } from "./numbers.js";
import { Overview } from "./overview.js";
import { pooled, tokensOf, unitsOf } from "./sides.js";
import { TextView } from "./text_view.js";
import { tokenScores, verdict } from "./why.js";

const STRONGEST = 8; // entries of a list

/** What the selected unit attends to most, or what attends to it: a sentence and a list. */
export class StrongestView {
  constructor() {
    this.summary = make("p", { class: "said", role: "status" });
    this.list = make("ol");
    this.element = make("div", { class: "strongest" }, this.summary, this.list);
  }

  /** Keep room for the longest list, so that nothing jumps. */
  reserve(entries) {
    this.list.style.setProperty("--rows", String(Math.min(entries, STRONGEST)));
  }

  show(selection, selected, values, labels) {
    const order = [...values.keys()].sort((one, other) => values[other] - values[one]);
    const best = order.filter((i) => values[i] > 0).slice(0, STRONGEST);
    this.element.classList.toggle("seen", selection?.side === "read");
    this.summarise(selection, selected, best.length ? quoted(labels[best[0]]) : null);
    this.list.replaceChildren(...best.map((i) => this.item(labels[i], values[i], values[best[0]])));
  }

  summarise(selection, selected, strongest) {
    const name = selection && quoted(selected);
    let sentence = ["On average, ", strongest, " gets most attention"];
    if (selection?.side === "wrote") {
      sentence = strongest ? [name, " attends most to ", strongest] : [name, " attends to nothing"];
    } else if (selection) {
      const from = strongest ? ["gets most attention from ", strongest] : ["gets no attention"];
      sentence = [name, " ", ...from];
    } else if (!strongest) sentence = ["All weights are 0"];
    this.summary.replaceChildren(...sentence);
  }

  item(label, value, most) {
    const bar = make("i", { "aria-hidden": "true" });
    bar.style.setProperty("--weight", String(value / most));
    return make("li", {}, quoted(label), bar, make("span", {}, shown(value)));
  }
}

/** The attention of one model: choices of layer and head, both sides, a list and the map. */
export class Panel {
  /** @param {import("./sides.js").Model} model */
  constructor(model, settings, pointer, bitmaps) {
    this.model = model;
    this.settings = settings;
    this.pointer = pointer;
    this.turn = 0;
    /** @type {{ layer: any, head: number | null }} */
    this.chosen = { layer: null, head: null };
    const sides = { read: model.read, wrote: model.wrote ?? model.read };
    this.units = {
      read: unitsOf(sides.read, settings.words),
      wrote: unitsOf(sides.wrote, settings.words),
    };
    this.layers = new Layers(model.layers, tokensOf(sides.wrote), tokensOf(sides.read));
    this.empty = !model.layers.length || !tokensOf(sides.read) || !tokensOf(sides.wrote);
    const names = model.wrote ? ["Input", "Output"] : ["Attended to", "Attending"];
    this.read = this.sideView("read", names[0], bitmaps.read);
    this.wrote = this.sideView("wrote", names[1], bitmaps.wrote);
    this.strongest = new StrongestView();
    this.strongest.reserve(Math.max(this.units.read.labels.length, this.units.wrote.labels.length));
    this.map = new MapView(this.units.wrote, this.units.read, this.pointerOf("wrote"));
    this.controls = make("div", { class: "controls" });
    this.element = this.laidOut(names);
  }

  pointerOf(side) {
    const at = (index) => ({ side, index, labels: this.units[side].labels });
    return {
      over: (index) => this.pointer.over(at(index)),
      pin: (index) => this.pointer.pin(at(index)),
      leave: () => this.pointer.over(null),
    };
  }

  sideView(side, name, bitmap) {
    const [units, pointer] = [this.units[side], this.pointerOf(side)];
    if (!bitmap) return new TextView(units, name, pointer);
    const view = new ImageView(units, name, pointer, bitmap);
    view.cover(this.settings.cover);
    return view;
  }

  laidOut(names) {
    const block = (name, view) =>
      make("div", { class: "side" }, make("p", { class: "name" }, name), view.element);
    const sides = [block(names[0], this.read), block(names[1], this.wrote)];
    const panel = make("section", { class: "panel", "aria-label": this.model.name || "Attention" });
    if (this.model.name) panel.append(make("h2", { dir: "auto" }, visible(this.model.name)));
    const { scores } = this.model;
    if (scores) {
      panel.append(make("div", { class: "why" }, verdict(scores), tokenScores(scores.tokens)));
    }
    if (this.empty) {
      const why = "the model has no attention layers, or the input or output is empty.";
      panel.append(make("p", { class: "said" }, `No attention to show: ${why}`), ...sides);
      return panel;
    }
    const images = this.read instanceof ImageView;
    const both = make("div", { class: images ? "images" : "texts" }, ...sides);
    const { read, wrote } = this;
    const texts = read instanceof TextView && wrote instanceof TextView;
    if (texts && this.model.wrote && LinesView.suits(this.units.read, this.units.wrote)) {
      this.lines = new LinesView(both, read, wrote);
    }
    const looking = make("div", { class: "looking" }, both, this.strongest.element);
    const map = make("details", {}, make("summary", {}, "Attention map"), this.map.element);
    map.open = !images;
    panel.append(this.controls, looking);
    const maps = make("div", { class: "maps" }, map);
    if (this.layers.heads("mean").most > 1 || this.model.layers.length > 1) {
      this.overview = new Overview(this.layers, (chosen) => this.change(chosen));
      maps.prepend(
        make("div", {}, make("p", { class: "name" }, "All heads"), this.overview.element),
      );
    }
    const { belief } = this.model;
    if (belief) {
      const title = make("p", { class: "name" }, "How far to trust this picture");
      const note = make("div", { class: "belief", role: "note" }, title, make("p", {}, belief));
      this.strongest.element.append(note);
    }
    panel.append(maps);
    return panel;
  }

  /** Start with this choice of layer and head, as far as they exist here. */
  async begin({ layer, head }) {
    if (this.empty) return;
    const options = this.layerOptions();
    const known = options.some(([value]) => value === layer);
    const first = known ? layer : this.firstLayer();
    const select = choice("Layer", options, first, (value) =>
      this.change({ layer: ["mean", "rollout"].includes(value) ? value : Number(value) }),
    );
    this.controls.append(select, make("span"));
    await this.choose({ layer: first, head: known ? head : this.aligning().head });
    this.overview?.draw();
  }

  /** Return the layer and head by which words are aligned, as far as the record names them. */
  aligning() {
    const { layer, head } = this.model.align ?? {};
    const number = this.model.layers.findIndex(({ name }) => name === layer);
    return number < 0 ? { layer: null, head: null } : { layer: number, head: head ?? null };
  }

  async choose({ layer, head }) {
    const heads = this.layers.heads(layer);
    const kept = head !== null && head < heads.least ? head : null;
    if (layer !== this.chosen.layer) {
      this.controls.lastChild?.replaceWith(this.headChoice(heads, kept));
    }
    this.chosen = { layer, head: kept };
    const mine = ++this.turn;
    const matrix = pooled(await this.layers.of(this.chosen), this.units.wrote, this.units.read);
    if (mine !== this.turn) return; // another choice was made meanwhile
    this.matrix = matrix;
    this.map.set(matrix);
    this.overview?.mark(this.chosen);
  }

  async change(part) {
    await this.choose({ ...this.chosen, ...part });
    const { layer, head } = this.chosen;
    const selects = this.controls.querySelectorAll("select");
    selects[0].value = String(layer);
    selects[1].value = String(head ?? "mean");
    this.pointer.paint();
  }

  layerOptions() {
    const { layers } = this.model;
    const options = layers.map(({ name }, i) => [i, name ? visible(name) : "attention"]);
    const all = counted(layers, "layer");
    if (!this.model.wrote) options.unshift(["rollout", `rollout through ${all}`]);
    if (layers.length > 1) options.unshift(["mean", `mean of ${all}`]);
    return options;
  }

  firstLayer() {
    const { layer } = this.aligning();
    if (layer !== null) return layer;
    if (this.model.read.kind === "image" && !this.model.wrote) return "rollout";
    return this.model.layers.length > 1 ? "mean" : 0;
  }

  headChoice({ least, most }, head) {
    const options = Array.from({ length: least }, (_, number) => [number, `head ${number}`]);
    const all = least === most ? most : "all";
    if (most > 1) options.unshift(["mean", `mean of ${all} heads`]);
    return choice("Head", options, head ?? options[0][0], (value) =>
      this.change({ head: value === "mean" ? null : Number(value) }),
    );
  }

  /** Show a selection; one from a text with other words is ignored. */
  paint(selection, pinned) {
    if (!this.matrix) return;
    const { matrix, units } = this;
    const here = selection && sameItems(selection.labels, units[selection.side].labels);
    const mine = here ? selection : null;
    const bySide = (side) => (mine?.side === side ? mine.index : null);
    for (const side of ["read", "wrote"]) this[side].mark(bySide(side), pinned);
    const backwards = mine?.side === "read";
    const forwards = mine ? matrix.row(mine.index) : matrix.average();
    const values = backwards ? matrix.column(mine.index) : forwards;
    this.read.shade(backwards ? null : values);
    this.wrote.shade(backwards ? values : null);
    this.element.classList.toggle("backwards", backwards);
    const labels = units[backwards ? "wrote" : "read"].labels;
    this.strongest.show(mine, mine && units[mine.side].labels[mine.index], values, labels);
    this.map.mark(mine);
    this.lines?.show(matrix, mine);
  }

  cover(covered) {
    for (const view of [this.read, this.wrote]) if (view instanceof ImageView) view.cover(covered);
  }
}
