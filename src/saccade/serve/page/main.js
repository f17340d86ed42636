/* The page: chosen models, the input, and requests. The lens's view shows the attention. */

import { readAddress, writeAddress } from "./address.js";
import { columnFor } from "./column.js";
import { make } from "./dom.js";
import { inputFor } from "./input.js";
import { Options } from "./options.js";
import { at } from "./parts.js";
import { fetchJson, token } from "./server.js";
import { fromRecord } from "./sides.js";
import { show } from "./view.js";

const PAUSE = 250; // milliseconds without typing after which a request is sent

class Page {
  constructor() {
    this.models = [];
    this.columns = [];
    this.records = [];
    this.input = inputFor("text", () => {});
    this.timer = 0;
    this.options = new Options(() => this.changed(false));
    this.listen();
  }

  listen() {
    at("token").addEventListener("submit", (event) => {
      event.preventDefault();
      this.unlock(at("token-field").value.trim());
    });
    at("model").addEventListener("change", () => this.choose());
    at("other").addEventListener("change", () => this.choose());
    at("go").addEventListener("click", () => this.go());
    at("stop").addEventListener("click", () => this.stop());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.stop();
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.go();
    });
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
    try {
      const { data } = await fetchJson("/v1/models");
      this.models = data;
    } catch (error) {
      if (error.code === "no_token") this.lock();
      else this.trouble(error.message);
      return;
    }
    at("token").hidden = at("trouble").hidden = true;
    at("work").hidden = false;
    if (this.columns.length) this.changed(true);
    else this.list();
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

  list() {
    at("model").replaceChildren(...this.models.map(({ id }) => option(id)));
    const { model, other, texts } = readAddress();
    const known = this.models.find(({ id }) => id === model) ?? this.models[0];
    at("model").value = known.id;
    at("other").replaceChildren(option(other));
    this.read(known.reads);
    this.input.texts = texts;
    this.choose();
  }

  /** Create a column for each chosen model, and the fields for its input. */
  choose() {
    const first = this.models.find(({ id }) => id === at("model").value);
    const others = this.models.filter((one) => one !== first && one.reads === first.reads);
    const kept = others.find(({ id }) => id === at("other").value);
    at("other").replaceChildren(option("", "none"), ...others.map(({ id }) => option(id)));
    at("other").value = kept?.id ?? "";
    at("other").disabled = !others.length;
    at("about").textContent = aboutModel(first);
    for (const column of this.columns) column.drop();
    const chosen = kept ? [first, kept] : [first];
    this.columns = chosen.map((model) => columnFor(model, this));
    at("answers").replaceChildren(...this.columns.map(({ element }) => element));
    this.read(first.reads);
    this.options.for(chosen);
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

  // requests

  /** Send the changed input, at once or when typing pauses. */
  changed(atOnce) {
    clearTimeout(this.timer);
    const [model, other] = this.columns.map((column) => column.model.id);
    writeAddress({ model, other: other ?? "", texts: this.input.texts });
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
    at("looked").hidden = !looked.length;
    const records = looked.map(({ record }) => record);
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

function sameItems(some, others) {
  return some.length === others.length && some.every((one, i) => one === others[i]);
}

function option(value, text = value) {
  return make("option", { value }, text);
}

const INPUTS = { text: "text", pair: "two texts", image: "image", vectors: "vectors (.npy)" };

function aboutModel({ task, reads, languages }) {
  const [from, to] = languages ?? [];
  const job = languages ? `translates ${from} → ${to}` : task.replaceAll("_", " ");
  return `${job} · input: ${INPUTS[reads] ?? reads}`;
}

new Page().start();
