/* Why not another answer? The probability of each token of an answer that the reader gives.

whyNot({ answer, score })   a form for another answer; `score` asks a live model
whyHint()                   where no model is at hand: how to ask one
tokenScores(tokens)         tokens with their probabilities, and what the model prefers

What users wrote becomes text nodes and nothing else. */

import { make, quoted, visible } from "./dom.js";

/** @typedef {{ text: string, probability: number, best: string, best_probability: number }} TokenScore */
/** @typedef {{ text: string, confidence: number | null, tokens: TokenScore[], attention?: any }} Scored */

const TITLE = "Why not another answer?";
const UNKNOWN = "⁇";
const LIKELY = 0.5; // a token of at least this probability is not marked as unlikely

/** Return a form for another answer, and below it how probable the model finds that answer.

    @param {{
      answer: string,
      score: (answer: string) => Promise<Scored>,
      confidence?: number | null,
      labels?: string[] | null,
      label?: string,
      moved?: (record: any, name: string) => void,
    }} options `answer` is the model's own and `confidence` its confidence; `score` gives what
      /v1/score returns for another one; `labels` are all answers, if there are few; `label` names
      the field; `moved` is called with the attention of the other answer. */
export function whyNot({ answer, score, confidence = null, labels = null, label = "", moved }) {
  /** @type {HTMLElement & { value: string }} */
  const field = labels ? choiceOf(labels, answer) : make("textarea", { rows: 1, dir: "auto" });
  field.value = labels ? field.value : answer;
  const name = label || (labels ? "Another label" : "Another answer");
  const send = make("button", { class: "main" }, "Score it");
  const result = make("div", { class: "scored", "aria-live": "polite" });
  const form = make("form", {}, make("label", {}, make("span", {}, name), field), send);
  let turn = 0;
  const ask = async () => {
    const mine = ++turn;
    const given = field.value;
    result.setAttribute("aria-busy", "true");
    let shown;
    /** @type {Scored | null} */
    let scored = null;
    try {
      scored = await score(given);
      shown = [verdict(scored, confidence), tokenScores(scored.tokens)];
    } catch (error) {
      shown = [make("p", { role: "alert", dir: "auto" }, error.message)];
    }
    if (mine !== turn) return; // another answer was given meanwhile
    result.replaceChildren(...shown);
    result.setAttribute("aria-busy", "false");
    if (scored?.attention) moved?.(scored.attention, labels ? `for ${given}` : "your answer");
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    ask();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    event.stopPropagation();
    ask();
  });
  if (labels) field.addEventListener("change", ask);
  return make("details", { class: "why" }, make("summary", {}, TITLE), form, result);
}

/** Return a select of labels, whose first choice is not the model's answer. */
function choiceOf(labels, answer) {
  const select = make("select");
  for (const label of labels) {
    select.append(make("option", { value: label, dir: "auto" }, visible(label)));
  }
  select.value = labels.find((label) => label !== answer) ?? answer;
  return select;
}

/** Return how to ask a model, for pages that have none. */
export function whyHint() {
  const code = (text) => make("code", {}, text);
  const hint = make(
    "p",
    { class: "note" },
    "This file has the attention weights, but not the model. With the model at hand, give any other " +
      "answer to see the probability of each of its tokens and how attention moves: with ",
    code("saccade serve RUN"),
    ", with ",
    code("saccade look RUN INPUT --answer ANSWER"),
    ", or in Python with ",
    code("run.score([input], [answer], attention=True)"),
    ".",
  );
  return make("details", { class: "why" }, make("summary", {}, TITLE), hint);
}

/** Return a sentence about a scored answer: where the model prefers something else.
    @param {Scored} scored
    @param {number | null} [confidence] that of the model's own answer */
export function verdict({ tokens, confidence: own }, confidence = null) {
  if (!tokens.length) return make("p", {}, "There is nothing to score.");
  const [worst] = tokens
    .filter(({ text, best }) => text !== best)
    .sort((one, other) => one.probability - other.probability);
  const sentence = make("p", { class: "verdict" });
  if (!worst) sentence.append("Every token of it is the most probable one at its place. ");
  else {
    const alone = tokens.length === 1;
    sentence.append(
      alone ? "The model gives " : "It is least likely at ",
      quoted(visible(worst.text)),
      alone
        ? ` ${percent(worst.probability)} and prefers `
        : ` (${percent(worst.probability)}), where the model prefers `,
      quoted(visible(worst.best)),
      ` (${percent(worst.best_probability)}). `,
    );
  }
  if (tokens.length > 1 && own !== null) {
    const against = confidence === null ? "" : `, that of the prediction ${percent(confidence)}`;
    sentence.append(`Its confidence is ${percent(own)}${against}.`);
  }
  return sentence;
}

/** Return tokens with their probabilities and, below unlikely ones, what the model prefers.
    @param {TokenScore[]} tokens */
export function tokenScores(tokens) {
  const list = make("ol", { class: "scores", "aria-label": "Probability of each token" });
  for (const { text, probability, best, best_probability } of tokens) {
    const bar = make("i", { "aria-hidden": "true" });
    bar.style.setProperty("--weight", String(probability));
    const item = make(
      "li",
      { class: probability < LIKELY ? "unlikely" : "" },
      make("bdi", {}, visible(text)),
      bar,
      make("span", {}, percent(probability)),
    );
    if (text === UNKNOWN) item.append(make("small", {}, "not in the vocabulary"));
    if (text !== best) {
      const instead = make("small", {}, "prefers ", make("bdi", {}, visible(best)));
      instead.append(` ${percent(best_probability)}`);
      item.append(instead);
    }
    list.append(item);
  }
  return list;
}

/** Return a probability in per cent, never rounded to 0 or 100 if it is neither. */
function percent(fraction) {
  if (fraction > 0.999 && fraction < 1) return "> 99.9 %";
  if (fraction > 0 && fraction < 0.001) return "< 0.1 %";
  return `${(100 * fraction).toFixed(1)} %`;
}
