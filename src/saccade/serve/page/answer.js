/* Elements that show a prediction: a text with its confidence, labels with bars, or tagged spans. */

import { make, visible } from "./dom.js";

const MOST_LABELS = 10;
const KINDS = 6; // colours of labels
const CUT = "The input is too long for this model: only a part of it was read.";

/** Return the elements for an answer of /v1/predict to an input. */
export function answerElements(answer, input) {
  const elements = elementsOf(answer, input);
  return answer.truncated ? [...elements, make("p", { class: "cut" }, CUT)] : elements;
}

function elementsOf(answer, input) {
  if ("spans" in answer) return [taggedText(answer.spans, String(input))];
  return "text" in answer ? textElements(answer) : labelElements(answer);
}

/** Return a paragraph with the input, in which each span is marked and followed by its label. */
function taggedText(spans, input) {
  const letters = Array.from(input); // characters are code points, as in Python
  const paragraph = make("p", { class: "answer tagged", dir: "auto" });
  const kinds = [...new Set(spans.map(({ label }) => label))];
  let at = 0;
  for (const { start, end, label, probability } of spans) {
    const title = `${label}, probability ${percent(probability)}`;
    const kind = `kind-${kinds.indexOf(label) % KINDS}`;
    const name = make("span", { class: "label" }, visible(label));
    const marked = make("mark", { class: kind, title }, letters.slice(start, end).join(""), name);
    paragraph.append(letters.slice(at, start).join(""), marked);
    at = end;
  }
  paragraph.append(letters.slice(at).join(""));
  return paragraph;
}

function labelElements({ label, probabilities }) {
  const best = make("p", { class: "answer" }, labelElement(String(label)));
  return probabilities ? [best, bars(probabilities)] : [best];
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
