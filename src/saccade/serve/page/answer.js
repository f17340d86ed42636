/* Elements that show a prediction: a text with its confidence, or labels with bars. */

import { make, visible } from "./view.js";

const MOST_LABELS = 10;

/** Return the elements for an answer of /v1/predict. */
export function answerElements(answer) {
  if ("text" in answer) return textElements(answer);
  const best = make("p", { class: "answer" }, labelElement(String(answer.label)));
  return answer.probabilities ? [best, bars(answer.probabilities)] : [best];
}

/** Return a paragraph with a text, or with a note that it is empty. */
function paragraph(text) {
  if (!text.trim()) return make("p", { class: "answer quiet" }, "(empty text)");
  return make("p", { class: "answer", dir: "auto" }, text);
}

function textElements({ text, confidence, alternatives = [] }) {
  const best = make("div", { class: "best" }, paragraph(text), confidenceElement(confidence));
  if (!alternatives.length) return [best];
  const others = alternatives.map((other) =>
    make("li", {}, make("bdi", {}, other.text || "∅"), confidenceElement(other.confidence)),
  );
  const list = make("ol", { class: "others", start: 2 }, ...others);
  return [best, make("h3", {}, "Alternatives"), list];
}

function confidenceElement(confidence) {
  if (confidence === null) return "";
  const title = "Geometric mean of the probabilities of its tokens";
  return make("span", { class: "score", title }, `confidence ${percent(confidence)}`);
}

/** Return a fraction in per cent, never rounded to 0 or 100 if it is neither. */
function percent(fraction) {
  if (fraction > 0.99 && fraction < 1) return "> 99 %";
  if (fraction > 0 && fraction < 0.01) return "< 1 %";
  return `${Math.round(100 * fraction)} %`;
}

function bars(probabilities) {
  const all = Object.entries(probabilities).sort(([, one], [, other]) => other - one);
  const list = make("ol", { class: "bars" });
  for (const [label, probability] of all.slice(0, MOST_LABELS)) {
    const bar = make("i", { "aria-hidden": "true" });
    bar.style.setProperty("--share", String(probability));
    const number = make("span", {}, `${(100 * probability).toFixed(1)} %`);
    list.append(make("li", {}, labelElement(label), make("span", { class: "track" }, bar), number));
  }
  const more = all.length - MOST_LABELS;
  if (more > 0)
    list.append(
      make("li", { class: "quiet" }, `and ${more} less likely ${more === 1 ? "label" : "labels"}`),
    );
  return list;
}

function labelElement(label) {
  return make("bdi", {}, visible(label));
}
