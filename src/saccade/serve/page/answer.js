/* What a model answered, as elements: a text with its score and others, or labels with bars. */

import { make, visible } from "./view.js";

const MOST_LABELS = 10;

/** The elements for an answer of /v1/predict. */
export function answerElements(answer) {
  if ("text" in answer) return written(answer);
  const best = make("p", { class: "answer" }, named(String(answer.label)));
  return answer.probabilities ? [best, bars(answer.probabilities)] : [best];
}

/** A text in a line of its own, or a word that says that there is none. */
function textElement(text) {
  if (!text.trim()) return make("p", { class: "answer quiet" }, "an empty text");
  return make("p", { class: "answer", dir: "auto" }, text);
}

function written({ text, score, alternatives = [] }) {
  const best = make("div", { class: "best" }, textElement(text), scoreElement(score));
  if (!alternatives.length) return [best];
  const others = alternatives.map((other) =>
    make("li", {}, make("bdi", {}, other.text || "∅"), scoreElement(other.score)),
  );
  const list = make("ol", { class: "others", start: 2 }, ...others);
  return [best, make("h3", {}, "Other answers"), list];
}

function scoreElement(score) {
  const title = "The mean log-probability of its tokens: the nearer to 0, the surer";
  const number = score.toFixed(3).replace("-", "−");
  return make("span", { class: "score", title }, `score ${number}`);
}

function bars(probabilities) {
  const all = Object.entries(probabilities).sort(([, one], [, other]) => other - one);
  const list = make("ol", { class: "bars" });
  for (const [label, probability] of all.slice(0, MOST_LABELS)) {
    const bar = make("i", { "aria-hidden": "true" });
    bar.style.setProperty("--share", String(probability));
    const number = make("span", {}, `${(100 * probability).toFixed(1)} %`);
    list.append(make("li", {}, named(label), make("span", { class: "track" }, bar), number));
  }
  const more = all.length - MOST_LABELS;
  if (more > 0) list.append(make("li", { class: "quiet" }, `and ${more} less likely ones`));
  return list;
}

function named(label) {
  return make("bdi", {}, visible(label));
}
