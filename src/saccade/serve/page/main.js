/* The page: which models are asked what, and when. The lens's view shows where they looked. */

import { columnFor } from "./column.js";
import { inputFor } from "./input.js";
import { Options } from "./options.js";
import { at } from "./parts.js";
import { ask, token } from "./server.js";
import { fromRecord, make, show } from "./view.js";

const PAUSE = 250; // milliseconds without typing after which it is asked

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
      // a file that misses its place must not replace the page
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

  /** Ask for the models; where the token is missing or wrong, for that. */
  async open() {
    try {
      const { data } = await ask("/v1/models");
      this.models = data;
    } catch (error) {
      if (error.code === "no_token") this.lock();
      else this.trouble(error.message);
      return;
    }
    at("token").hidden = at("trouble").hidden = true;
    at("more").hidden = Boolean(token.value); // a link takes no token along
    at("work").hidden = false;
    if (this.columns.length) this.changed(true);
    else this.list();
  }

  async unlock(given) {
    at("token-said").textContent = "";
    // other letters fit in no header
    token.set(/^[\x20-\x7e]*$/.test(given) ? given : "?");
    await this.open();
    if (at("token").hidden) at("model").focus();
  }

  lock() {
    if (token.value) at("token-said").textContent = "This is not the token of this server.";
    token.set("");
    at("work").hidden = at("trouble").hidden = at("more").hidden = true;
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

  // choosing

  list() {
    at("model").replaceChildren(...this.models.map(({ id }) => option(id)));
    this.choose();
  }

  /** Have a column for each chosen model, and the fields for what they read. */
  choose() {
    const first = this.models.find(({ id }) => id === at("model").value);
    const others = this.models.filter((one) => one !== first && one.reads === first.reads);
    const kept = others.find(({ id }) => id === at("other").value);
    at("other").replaceChildren(option("", "no other"), ...others.map(({ id }) => option(id)));
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
    if (reads !== "image") this.input.texts = before;
    at("input").replaceChildren(this.input.element);
  }

  // asking

  /** There is another question: ask it, at once or when typing pauses. */
  changed(atOnce) {
    clearTimeout(this.timer);
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

  /** Let language models write on; an empty text is a beginning, too. */
  go() {
    for (const column of this.columns.filter(({ live }) => !live)) this.put(column);
  }

  /** Ask one model. */
  put(column) {
    column.ask(this.input.value() ?? this.input.texts[0], this.options.of(column.model));
    this.settled();
  }

  stop() {
    for (const column of this.columns) column.stop?.();
  }

  /** Let models be told to write, or to stop; who stands on one button goes on to the other. */
  allow(writing) {
    const [no, yes] = writing ? [at("go"), at("stop")] : [at("stop"), at("go")];
    const stands = document.activeElement === no;
    no.disabled = true;
    yes.disabled = false;
    if (stands) yes.focus();
  }

  /** Something has come or gone: show where it looked once nothing is waited for. */
  settled() {
    this.allow(this.columns.some(({ writes }) => writes));
    const waits = this.columns.some(({ pending, live }) => pending && live);
    at("looked").classList.toggle("waiting", waits);
    if (waits) return;
    const looked = this.columns.filter(({ record }) => record);
    at("looked").hidden = !looked.length;
    if (
      sameItems(
        looked.map(({ record }) => record),
        this.records,
      )
    )
      return;
    this.records = looked.map(({ record }) => record);
    const several = this.columns.length > 1;
    const inputs = looked.map(({ model, record }) => fromRecord(several ? model.id : "", record));
    if (looked.length) show(at("view"), [inputs]);
  }
}

function sameItems(some, others) {
  return some.length === others.length && some.every((one, i) => one === others[i]);
}

function option(value, text = value) {
  return make("option", { value }, text);
}

const READS = { text: "a text", pair: "two texts", image: "an image" };

function aboutModel({ task, reads, languages }) {
  const [from, to] = languages ?? [];
  const job = languages ? `translates ${from} → ${to}` : task.replaceAll("_", " ");
  return `${job}, reads ${READS[reads] ?? reads}`;
}

new Page().start();
