/* The models that answer, and examples of their input: fields above the answers.

One model is the first; any others that read the same kind of input can be compared with it. */

import { make, sameItems, shortened } from "./dom.js";
import { at } from "./parts.js";

const LONGEST = 60; // characters of an example on its button

/** The chosen models: choices.models, of which the first is that of the select. */
export class Choices {
  /** @param {() => void} changed is called when the reader has chosen others */
  constructor(changed) {
    this.changed = changed;
    /** @type {import("./card.js").ModelEntry[]} */
    this.all = [];
    this.wanted = new Set(); // names of models to compare with, also of those that do not fit now
    this.offered = [];
    at("model").addEventListener("change", () => changed());
  }

  /** List all models and choose these, as far as they exist. */
  list(all, model, others) {
    this.all = all;
    at("model").replaceChildren(...all.map(({ id }) => make("option", { value: id }, id)));
    this.choose(model, others);
  }

  choose(model, others) {
    const known = this.all.find(({ id }) => id === model) ?? this.all[0];
    at("model").value = known.id;
    this.wanted = new Set(others);
    this.offered = [];
  }

  get first() {
    return this.all.find(({ id }) => id === at("model").value) ?? this.all[0];
  }

  /** Return the models that can be compared with the first. */
  get others() {
    return this.all.filter((one) => one !== this.first && one.reads === this.first.reads);
  }

  get models() {
    return [this.first, ...this.others.filter(({ id }) => this.wanted.has(id))];
  }

  /** Offer the other models as boxes to tick; those that are there already keep the focus. */
  offer() {
    const names = this.others.map(({ id }) => id);
    at("others").hidden = !names.length;
    if (sameItems(names, this.offered)) return;
    this.offered = names;
    const boxes = names.map((name) => {
      const box = make("input", { type: "checkbox", value: name });
      box.checked = this.wanted.has(name);
      box.addEventListener("change", () => {
        if (box.checked) this.wanted.add(name);
        else this.wanted.delete(name);
        this.changed();
      });
      return make("label", { class: "chip" }, box, make("span", {}, name));
    });
    at("chips").replaceChildren(...boxes);
  }
}

/** Show the examples of the first model that has any; `put` is called with the chosen one.
    @param {import("./card.js").ModelEntry[]} models
    @param {(example: any) => void} put */
export function showExamples(models, put) {
  const examples = models.find((model) => model.examples?.length)?.examples ?? [];
  const buttons = examples.map((example, i) => {
    const button = make("button", { type: "button", class: "example", dir: "auto" });
    if (String(example).startsWith("data:image/")) {
      button.classList.add("picture");
      button.append(make("img", { src: example, alt: `Example ${i + 1}` }));
    } else {
      const text = [example].flat().join(" | ");
      button.append(shortened(text, LONGEST));
      if (text.length > LONGEST) button.title = text;
    }
    button.addEventListener("click", () => put(example));
    return button;
  });
  at("examples").hidden = !buttons.length;
  at("examples").replaceChildren(make("span", { class: "quiet" }, "Examples"), ...buttons);
}
