/* What the page shows of a model: its name, its task, its score, its age and its size. */

import { make } from "./dom.js";

const INPUTS = { pair: "two texts", image: "an image", vectors: "vectors (.npy)" };
const UNITS = ["", " K", " M", " G"]; // of thousands

/** @typedef {{
      id: string,
      task: string,
      reads: string,
      engine?: string,
      languages?: [string, string] | null,
      score?: { text: string, items: number } | null,
      trained?: string | null,
      parameters?: number | null,
      examples?: any[],
    }} ModelEntry */

/** Return the head of a model's card.
    @param {ModelEntry} model */
export function cardHead(model) {
  const facts = factsOf(model).map((fact) => make("li", {}, fact));
  return make(
    "header",
    { class: "model" },
    make("h2", {}, model.id),
    make("p", { class: "task" }, jobOf(model)),
    ...(facts.length ? [make("ul", { class: "facts-line" }, ...facts)] : []),
  );
}

/** Return what a model does, in a few words.
    @param {ModelEntry} model */
export function jobOf({ task, reads, languages }) {
  const [from, to] = languages ?? [];
  if (languages) return `translates ${from} → ${to}`;
  const job = task.replaceAll("_", " ");
  return INPUTS[reads] ? `${job}, reads ${INPUTS[reads]}` : job;
}

/** Return the known facts about a model: score, day, size, engine.
    @param {ModelEntry} model */
export function factsOf({ score, trained, parameters, engine }) {
  const facts = [];
  if (score) facts.push(`${score.text} on ${score.items.toLocaleString("en")} validation inputs`);
  if (trained) facts.push(`trained ${trained}`);
  if (parameters) facts.push(`${rounded(parameters)} weights`);
  if (engine && engine !== "eager") facts.push(`engine ${engine}`);
  return facts;
}

/** Return a number with at most three digits and a unit: 1 234 567 as "1.23 M".
    @param {number} number */
export function rounded(number) {
  let value = number;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${Number(value.toPrecision(3))}${UNITS[unit]}`;
}
