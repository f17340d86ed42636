/* One model and its prediction for the current input.

When the input changes, the running request is cancelled and a late response is ignored. */

import { answerElements } from "./answer.js";
import { cardHead } from "./card.js";
import { copied, deed, make } from "./dom.js";
import { fetchEvents, fetchJson, RequestError } from "./server.js";
import { whyNot } from "./why.js";

const SEEDS = 2 ** 32;
const DEFAULT_TOKENS = 16; // of /v1/completions

/** Base of all columns: a card with the model's name, its prediction, a status line and buttons.

Calls page.settled() when something has changed, page.lock() when the token is wrong, and
page.put(column) to send the request again. */
class Column {
  constructor(model, page) {
    this.model = model;
    this.page = page;
    this.turn = 0;
    this.pending = false;
    this.record = null;
    this.other = null; // the attention of another answer: { record, name }
    this.controller = null;
    this.body = make("div", { class: "body", "aria-live": "polite" });
    this.said = make("p", { class: "quiet said", role: "status" });
    this.wrong = make("div", { role: "alert" });
    this.deeds = make("div", { class: "row deeds" });
    this.held = 0;
    this.element = make("article", { class: "sheet", "aria-label": model.id }, cardHead(model));
    this.element.append(this.body, this.said, this.wrong, this.deeds);
    this.clear();
  }

  /** Text that is shown until there is a prediction. */
  get hint() {
    return "";
  }

  /** Mark the prediction as outdated because the input has changed. */
  outdate() {
    this.drop();
    this.pending = true;
    this.said.textContent = "";
    this.wrong.replaceChildren();
    this.body.setAttribute("aria-busy", "true");
  }

  /** Show the hint, because the input is empty. */
  clear() {
    this.drop();
    this.release();
    this.show([make("p", { class: "quiet hint" }, this.hint)], []);
  }

  /** Cancel the running request. */
  drop() {
    this.turn++;
    this.pending = false;
    this.controller?.abort();
  }

  /** Let the card be as small as what it shows next. */
  release() {
    this.held = 0;
    this.element.style.minHeight = "";
  }

  /** Keep the card as high as it is, so that what is below it stays where it is. */
  hold() {
    this.held = Math.max(this.held, this.element.offsetHeight);
    this.element.style.minHeight = `${this.held}px`;
  }

  show(elements, deeds) {
    this.element.style.minHeight = this.held ? `${this.held}px` : "";
    this.body.replaceChildren(...elements);
    this.body.setAttribute("aria-busy", "false");
    this.said.textContent = "";
    this.wrong.replaceChildren();
    this.deeds.replaceChildren(...deeds);
    this.record = this.other = null;
  }

  /** Return the form that scores another answer to an input. */
  why(answer, input, more = {}) {
    return whyNot({
      answer,
      ...more,
      score: async (output) => {
        const body = { model: this.model.id, inputs: [input], outputs: [output] };
        const [response] = await withAttention("/v1/score", body, {});
        return response.answers[0];
      },
      moved: (record, name) => {
        this.other = { record, name };
        this.page.settled();
      },
    });
  }

  /** Send a request; its result counts only if no other request was started meanwhile. */
  async attempt(act) {
    this.drop();
    this.controller = new AbortController();
    this.pending = true;
    const mine = this.turn;
    const isLast = () => mine === this.turn;
    const wait = (seconds) => {
      this.said.textContent = `The server is busy. Retrying in ${seconds} s.`;
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
    const message =
      error instanceof RequestError ? error.message : `Error in this page: ${error.message}`;
    this.wrong.replaceChildren(make("p", { class: "wrong", dir: "auto" }, message));
    const pointless = error.code === "invalid"; // it would fail again
    if (pointless || this.deeds.children.length) return;
    const again = make("button", { type: "button" }, "Try again");
    again.addEventListener("click", () => this.page.put(this));
    this.deeds.replaceChildren(again);
  }
}

/** A model that predicts as the user types. */
export class PredictionColumn extends Column {
  get live() {
    return true;
  }

  get hint() {
    if (this.model.reads === "image") return "The prediction appears once there is an image.";
    if (this.model.reads === "vectors") return "The prediction appears once there is a file.";
    return "The prediction appears as you type.";
  }

  ask(input, options) {
    return this.attempt(async (talk, isLast) => {
      const body = { model: this.model.id, inputs: [input], ...options };
      const [response, note] = await withAttention("/v1/predict", body, talk);
      if (!isLast()) return;
      const [answer] = response.answers;
      this.show(
        [...answerElements(answer, input), ...this.whyOf(answer, input)],
        [
          deed("Copy prediction", () => copied(asText(answer))),
          deed("Copy as JSON", () => copied(JSON.stringify(answer))),
        ],
      );
      this.record = answer.attention ?? null;
      this.said.textContent = note;
      this.hold();
    });
  }

  /** Return the form for other answers, if answers have a probability. */
  whyOf(answer, input) {
    const { confidence, probabilities, tags } = answer;
    if (confidence === null || confidence === undefined) return [];
    const label = tags ? "Another tag per word" : "";
    const labels = probabilities && !answer.label.includes(",") ? Object.keys(probabilities) : null;
    const given = String(answer.text ?? answer.label ?? tags.join(" "));
    return [this.why(tags ? tags.join(" ") : given, input, { confidence, labels, label })];
  }
}

/** Return a prediction as plain text: a text, a label, or one line per span. */
function asText({ text, label, spans }) {
  if (!spans) return String(text ?? label);
  return spans.map((span) => `${span.text}\t${span.label}`).join("\n");
}

/** Return the response with attention; if only that is too large, without it and with a note. */
async function withAttention(path, body, talk) {
  try {
    return [await fetchJson(path, { ...body, attention: true }, talk), ""];
  } catch (error) {
    if (error.code !== "invalid") throw error;
    const plain = await fetchJson(path, body, talk).catch(() => Promise.reject(error));
    return [plain, `Attention is not shown: ${error.message}`];
  }
}

/** A language model: it generates on request, until it is stopped. */
export class StreamColumn extends Column {
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
    return "Generate continues the text, or starts a new one.";
  }

  clear() {
    super.clear();
    this.writes = false;
  }

  outdate() {
    this.clear();
  }

  /** Continue a prompt, piece by piece. */
  ask(prompt, options) {
    const seed = Math.floor(Math.random() * SEEDS);
    this.question = { model: this.model.id, prompt, seed, ...options };
    this.text = document.createTextNode("");
    this.count = 0;
    const body = { ...this.question, stream: true };
    return this.attempt(async (talk, isLast) => {
      this.begin(prompt);
      let reason = null;
      for await (const { choices } of fetchEvents("/v1/completions", body, talk)) {
        if (!isLast()) return;
        this.said.textContent = "";
        this.text.appendData(choices[0].text);
        this.count++;
        reason = choices[0].finish_reason;
      }
      if (isLast()) this.end(reason === "stop" ? "Finished." : this.limitReached());
    });
  }

  begin(prompt) {
    const before = make("span", { class: "quiet" }, prompt);
    this.show([make("p", { class: "answer stream", dir: "auto" }, before, this.text)], []);
    this.body.setAttribute("aria-busy", "true");
    this.writes = true;
  }

  /** Return the status of a text that was cut at its maximum length. */
  limitReached() {
    const most = this.question.max_tokens ?? DEFAULT_TOKENS;
    return `Stopped at the maximum length (${most} ${most === 1 ? "token" : "tokens"}).`;
  }

  stop() {
    if (!this.writes) return;
    this.drop();
    if (this.count) this.question.max_tokens = this.count;
    this.end("Stopped.");
    this.page.settled();
  }

  end(status) {
    this.writes = false;
    this.body.setAttribute("aria-busy", "false");
    this.said.textContent = this.text.data ? status : `${status} Nothing was generated.`;
    if (this.text.data) this.body.append(this.why(this.text.data, this.question.prompt));
    const { question, text } = this;
    const look = make("button", { type: "button" }, "Show attention");
    look.addEventListener("click", () => this.look());
    this.deeds.replaceChildren(
      ...(this.count ? [look] : []),
      deed("Copy prediction", () => copied(text.data)),
      deed("Copy as JSON", () => {
        const attention = this.record ? { attention: this.record } : {};
        return copied(JSON.stringify({ ...question, text: text.data, ...attention }));
      }),
    );
  }

  /** Generate the same text again, this time with attention. */
  look() {
    return this.attempt(async (talk, isLast) => {
      const body = { ...this.question, attention: true };
      const { choices } = await fetchJson("/v1/completions", body, talk);
      if (!isLast()) return;
      this.wrong.replaceChildren();
      this.record = choices[0].attention;
      this.said.textContent = difference(this.text.data, choices[0].text);
    });
  }

  /** Show an error, and keep the text that was generated before it. */
  fail(error) {
    this.writes = false;
    this.body.setAttribute("aria-busy", "false");
    this.said.textContent = "";
    if (error.code === "no_token") this.page.lock();
    this.complain(error);
  }
}

/** Return a note if a text that was generated again is not the same. */
function difference(text, again) {
  if (again === text) return "";
  if (text.startsWith(again)) return "Attention of the first tokens only.";
  return `Generated again, the text differs: ${again}`;
}

/** Return the column for a model. */
export function columnFor(model, page) {
  return model.streams ? new StreamColumn(model, page) : new PredictionColumn(model, page);
}
