/* One model and its answer to what was asked last.

A question that is no longer asked is dropped, and so is its answer, should it still come. */

import { answerElements } from "./answer.js";
import { ask, pieces, Refused } from "./server.js";
import { copied, deed, make } from "./view.js";

const SEEDS = 2 ** 32;

/** What all models have: a sheet with a name, the answer, what is said of it, and what can be done.

`page` is told: settled() when there is something new to look at, lock() when the token is wrong,
put(column) when it is to be asked once more. */
class Column {
  constructor(model, page) {
    this.model = model;
    this.page = page;
    this.turn = 0;
    this.pending = false;
    this.record = null;
    this.controller = null;
    this.body = make("div", { class: "body", "aria-live": "polite" });
    this.said = make("p", { class: "quiet said", role: "status" });
    this.wrong = make("div", { role: "alert" });
    this.deeds = make("div", { class: "row deeds" });
    this.element = make("article", { class: "sheet" }, make("h2", {}, model.id));
    this.element.append(this.body, this.said, this.wrong, this.deeds);
    this.clear();
  }

  /** What stands here until there is an answer. */
  get hint() {
    return "";
  }

  /** Something else is about to be asked: what stands here is no longer the answer. */
  outdate() {
    this.drop();
    this.pending = true;
    this.said.textContent = "";
    this.wrong.replaceChildren();
    this.body.setAttribute("aria-busy", "true");
  }

  /** Nothing is asked. */
  clear() {
    this.drop();
    this.show([make("p", { class: "quiet hint" }, this.hint)], []);
  }

  drop() {
    this.turn++;
    this.pending = false;
    this.controller?.abort();
  }

  show(elements, deeds) {
    this.body.replaceChildren(...elements);
    this.body.setAttribute("aria-busy", "false");
    this.said.textContent = "";
    this.wrong.replaceChildren();
    this.deeds.replaceChildren(...deeds);
    this.record = null;
  }

  /** Do what asks the server; what it gives counts only if nothing else was asked meanwhile. */
  async attempt(act) {
    this.drop();
    this.controller = new AbortController();
    this.pending = true;
    const mine = this.turn;
    const isLast = () => mine === this.turn;
    const wait = (seconds) => {
      this.said.textContent = `The server is full. It is asked again in ${seconds} s.`;
    };
    try {
      await act({ signal: this.controller.signal, wait }, isLast);
    } catch (error) {
      if (isLast()) this.fail(error);
    }
    if (!isLast()) return;
    this.pending = false;
    this.page.settled();
  }

  fail(error) {
    if (error.code === "no_token") this.page.lock();
    this.show([], []);
    this.complain(error);
  }

  complain(error) {
    const message = error instanceof Refused ? error.message : `This page failed: ${error.message}`;
    this.wrong.replaceChildren(make("p", { class: "wrong", dir: "auto" }, message));
    const pointless = error.code === "invalid"; // it would be refused again
    if (pointless || this.deeds.children.length) return;
    const again = make("button", { type: "button" }, "Try again");
    again.addEventListener("click", () => this.page.put(this));
    this.deeds.replaceChildren(again);
  }
}

/** A model that answers whole, as one types. */
export class Answering extends Column {
  get live() {
    return true;
  }

  get hint() {
    if (this.model.reads === "image") return "The answer comes when there is an image.";
    return "The answer comes as you type.";
  }

  ask(input, options) {
    return this.attempt(async (talk, isLast) => {
      const question = { model: this.model.id, inputs: [input], ...options };
      const [found, trouble] = await withAttention(question, talk);
      if (!isLast()) return;
      const [answer] = found.answers;
      this.show(answerElements(answer), [
        deed("Copy answer", () => copied(String(answer.text ?? answer.label))),
        deed("Copy as JSON", () => copied(JSON.stringify(answer))),
      ]);
      this.record = answer.attention ?? null;
      this.said.textContent = trouble;
    });
  }
}

/** The answer with attention, or without it and why, should only the attention be too much. */
async function withAttention(question, talk) {
  try {
    return [await ask("/v1/predict", { ...question, attention: true }, talk), ""];
  } catch (error) {
    if (error.code !== "invalid") throw error;
    const found = await ask("/v1/predict", question, talk).catch(() => Promise.reject(error));
    return [found, `No attention: ${error.message}`];
  }
}

/** A language model: it writes on when told to, until it is stopped. */
export class Streaming extends Column {
  constructor(model, page) {
    super(model, page);
    this.question = {};
    this.text = document.createTextNode("");
    this.count = 0;
  }

  get live() {
    return false;
  }

  get hint() {
    return "It goes on from the text, or begins one, when told to write on.";
  }

  clear() {
    super.clear();
    this.writes = false;
  }

  outdate() {
    this.clear();
  }

  /** Write on from a prompt, piece by piece. */
  ask(prompt, options) {
    const seed = Math.floor(Math.random() * SEEDS);
    this.question = { model: this.model.id, prompt, seed, ...options };
    this.text = document.createTextNode("");
    this.count = 0;
    const question = { ...this.question, stream: true };
    return this.attempt(async (talk, isLast) => {
      this.begin(prompt);
      let reason = null;
      for await (const { choices } of pieces("/v1/completions", question, talk)) {
        if (!isLast()) return;
        this.said.textContent = "";
        this.text.appendData(choices[0].text);
        this.count++;
        reason = choices[0].finish_reason;
      }
      if (isLast()) this.end(reason === "stop" ? "It ended here." : "It had no more tokens.");
    });
  }

  begin(prompt) {
    const before = make("span", { class: "quiet" }, prompt);
    this.show([make("p", { class: "answer stream", dir: "auto" }, before, this.text)], []);
    this.body.setAttribute("aria-busy", "true");
    this.writes = true;
  }

  stop() {
    if (!this.writes) return;
    this.drop();
    if (this.count) this.question.max_tokens = this.count;
    this.end("It was stopped.");
    this.page.settled();
  }

  end(how) {
    this.writes = false;
    this.body.setAttribute("aria-busy", "false");
    this.said.textContent = this.text.data ? how : `${how} It wrote nothing.`;
    const { question, text } = this;
    const look = make("button", { type: "button" }, "Show where it looked");
    look.addEventListener("click", () => this.look());
    this.deeds.replaceChildren(
      ...(this.count ? [look] : []),
      deed("Copy answer", () => copied(text.data)),
      deed("Copy as JSON", () => {
        const attention = this.record ? { attention: this.record } : {};
        return copied(JSON.stringify({ ...question, text: text.data, ...attention }));
      }),
    );
  }

  /** The same draws once more, this time with attention. */
  look() {
    return this.attempt(async (talk, isLast) => {
      const question = { ...this.question, attention: true };
      const { choices } = await ask("/v1/completions", question, talk);
      if (!isLast()) return;
      this.wrong.replaceChildren();
      this.record = choices[0].attention;
      this.said.textContent = difference(this.text.data, choices[0].text);
    });
  }

  /** What was written before it failed stays. */
  fail(error) {
    this.writes = false;
    this.body.setAttribute("aria-busy", "false");
    this.said.textContent = "";
    if (error.code === "no_token") this.page.lock();
    this.complain(error);
  }
}

/** What is to be said if a text that was written once more is not the same. */
function difference(text, again) {
  if (again === text) return "";
  if (text.startsWith(again)) return "Below are its first tokens.";
  return `Written once more, it went on differently: ${again}`;
}

export function columnFor(model, page) {
  return model.streams ? new Streaming(model, page) : new Answering(model, page);
}
