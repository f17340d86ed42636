/* The page: chosen models, the input, and requests. The lens's view shows the attention. */

import { stateOf, writeAddress } from "./address.js";
import { Choices, showExamples } from "./choices.js";
import { columnFor } from "./column.js";
import { make, sameItems } from "./dom.js";
import { inputFor } from "./input.js";
import { Options } from "./options.js";
import { at } from "./parts.js";
import { fetchJson, token } from "./server.js";
import { fromRecord } from "./sides.js";
import { show } from "./view.js";

const PAUSE = 250; // milliseconds without typing after which a request is sent

class Page {
  constructor() {
    this.columns = [];
    this.records = [];
    this.input = inputFor("text", () => {});
    this.timer = 0;
    this.choices = new Choices(() => this.choose());
    this.options = new Options(() => this.changed(false));
    this.listen();
  }

  listen() {
    at("token").addEventListener("submit", (event) => {
      event.preventDefault();
      this.unlock(at("token-field").value.trim());
    });
    at("go").addEventListener("click", () => this.go());
    at("stop").addEventListener("click", () => this.stop());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.stop();
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.go();
    });
    window.addEventListener("hashchange", () => this.restore());
    window.addEventListener("resize", () => this.release());
    for (const kind of /** @type {const} */ (["paste", "drop"])) {
      document.addEventListener(kind, (event) => this.input.take(event) && event.preventDefault());
    }
    for (const kind of /** @type {const} */ (["dragover", "drop"])) {
      // a file that misses the drop zone must not replace the page
      document.addEventListener(kind, (event) => {
        if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
      });
    }
  }

  // the token and the models

  async start() {
    token.load();
    await this.open();
  }

  /** Fetch the models, or show the token form if the token is missing or wrong. */
  async open() {
    let models;
    try {
      models = (await fetchJson("/v1/models")).data;
    } catch (error) {
      if (error.code === "no_token") this.lock();
      else this.trouble(error.message);
      return;
    }
    at("token").hidden = at("trouble").hidden = true;
    at("work").hidden = false;
    if (this.columns.length) return this.changed(true);
    this.choices.list(models, "", []);
    this.restore();
    return undefined;
  }

  async unlock(text) {
    at("token-said").textContent = "";
    // a header cannot have other characters
    token.set(/^[\x20-\x7e]*$/.test(text) ? text : "?");
    await this.open();
    if (at("token").hidden) at("model").focus();
  }

  lock() {
    if (token.value) at("token-said").textContent = "This token is not valid for this server.";
    token.set("");
    at("work").hidden = at("trouble").hidden = true;
    at("token").hidden = false;
    at("token-field").value = "";
    at("token-field").focus();
  }

  trouble(message) {
    const again = make("button", { type: "button" }, "Try again");
    again.addEventListener("click", () => this.open());
    at("trouble").replaceChildren(message, " ", again);
    at("trouble").hidden = false;
  }

  // models

  /** Take models, texts and options from the address. */
  restore() {
    const { model, others, texts, options } = stateOf(location.hash);
    this.choices.choose(model, others);
    this.read(this.choices.first.reads);
    this.input.texts = texts;
    this.options.values = options;
    this.choose();
  }

  /** Create a column for each chosen model, and the fields for its input. */
  choose() {
    this.choices.offer();
    const { models } = this.choices;
    const before = this.columns;
    this.columns = models.map(
      (model) => before.find((column) => column.model === model) ?? columnFor(model, this),
    );
    for (const column of before) if (!this.columns.includes(column)) column.drop();
    at("answers").replaceChildren(...this.columns.map(({ element }) => element));
    this.read(models[0].reads);
    this.options.for(models);
    showExamples(models, (example) => this.input.put(example));
    at("deeds").hidden = this.columns.every(({ live }) => live);
    this.changed(true);
  }

  read(reads) {
    if (this.reads === reads) return;
    const before = this.input.texts;
    this.reads = reads;
    this.input = inputFor(reads, (atOnce) => this.changed(atOnce));
    this.input.texts = before;
    at("input").replaceChildren(this.input.element);
  }

  release() {
    for (const column of this.columns) column.release();
  }

  // requests

  /** Send the changed input, at once or when typing pauses. */
  changed(atOnce) {
    clearTimeout(this.timer);
    const [model, ...others] = this.columns.map((column) => column.model.id);
    const options = this.options.values;
    writeAddress({ model, others, texts: this.input.texts, options });
    if (atOnce) this.release();
    const nothing = this.input.value() === null;
    for (const column of this.columns) {
      if (nothing) column.clear();
      else column.outdate();
    }
    this.settled();
    if (!nothing) this.timer = setTimeout(() => this.ask(), atOnce ? 0 : PAUSE);
  }

  ask() {
    for (const column of this.columns.filter(({ live }) => live)) this.put(column);
  }

  /** Let language models generate, also from an empty text. */
  go() {
    for (const column of this.columns.filter(({ live }) => !live)) this.put(column);
  }

  /** Send the input to one model. */
  put(column) {
    column.ask(this.input.value() ?? this.input.texts[0], this.options.of(column.model));
    this.settled();
  }

  stop() {
    for (const column of this.columns) column.stop?.();
  }

  /** Enable the button to generate or to stop, and move the focus from the other one. */
  allow(writing) {
    const [no, yes] = writing ? [at("go"), at("stop")] : [at("stop"), at("go")];
    const focused = document.activeElement === no;
    no.disabled = true;
    yes.disabled = false;
    if (focused) yes.focus();
  }

  /** Update the page after a change; show the attention once no request is running. */
  settled() {
    this.allow(this.columns.some(({ writes }) => writes));
    const waits = this.columns.some(({ pending, live }) => pending && live);
    at("looked").classList.toggle("waiting", waits);
    if (waits) return;
    const several = this.columns.length > 1;
    const looked = this.columns.flatMap((column) => recordsOf(column, several));
    // after an error the view keeps its place until there is a prediction again
    const kept = this.records.length > 0 && this.input.value() !== null;
    at("looked").hidden = !looked.length && !kept;
    at("looked").classList.toggle("void", !looked.length && kept);
    const records = looked.map(({ record }) => record);
    if (!looked.length && kept) return;
    if (sameItems(records, this.records)) return;
    this.records = records;
    const inputs = looked.map(({ name, record }) => fromRecord(name, record));
    if (looked.length) show(at("view"), [inputs], { live: true });
  }
}

/** Return the records of a column with their names: of its prediction, and of another answer. */
function recordsOf({ model, record, other }, several) {
  const before = several ? `${model.id}: ` : "";
  const own = other ? `${before}prediction` : several ? model.id : "";
  return [
    ...(record ? [{ name: own, record }] : []),
    ...(other ? [{ name: before + other.name, record: other.record }] : []),
  ];
}

new Page().start();
