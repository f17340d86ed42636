/* The film of learning: showFilm(element, film), with a slider over the validations.

`film` is what film_json in report.py returns: the sides of each input and, for each validation, its
step, its loss, and the weights and the answer of each input. */

import { drawn, make, visible } from "./dom.js";
import { coveredBy, placed } from "./image_view.js";
import { bytesOf, strength } from "./numbers.js";
import { bitmapOf, unitsOf } from "./sides.js";

const PACE = 450; // milliseconds per frame
const CELL = 18; // pixels of a weight
const LETTER = 7; // pixels of a letter of a label
const LETTERS = 13; // of a label
const ENLARGED = 1.15; // a map on a wide page

/** @typedef {{ step: number, loss: number, weights: [number, string][], answers: string[] }} Frame */
/** @typedef {{ inputs: any[], frames: Frame[] }} Film */

/** @param {HTMLElement} element
    @param {Film} film */
export async function showFilm(element, film) {
  const scenes = await Promise.all(film.inputs.map(sceneOf));
  const last = film.frames.length - 1;
  const range = { type: "range", min: 0, max: last, value: last, step: 1 };
  const slider = make("input", { ...range, "aria-label": "Validation" });
  const play = make("button", { type: "button" }, "Play");
  const said = make("output", { class: "quiet" });
  const chart = document.querySelector("#learning .chart");
  const marker = chart?.appendChild(drawn("line", { class: "now" }));
  let timer = 0;

  function turn(number) {
    const frame = film.frames[number];
    slider.value = String(number);
    const place = `validation ${number + 1} of ${film.frames.length}`;
    said.textContent = `Step ${frame.step}, loss ${frame.loss.toPrecision(3)} (${place})`;
    slider.setAttribute("aria-valuetext", said.textContent);
    if (marker && chart) mark(chart, marker, frame.step);
    scenes.forEach((scene, i) => {
      scene.turn(frame.weights[i], frame.answers[i]);
    });
  }

  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  }

  slider.addEventListener("input", () => {
    stop();
    turn(slider.valueAsNumber);
  });
  play.addEventListener("click", () => {
    if (timer) return stop();
    play.textContent = "Pause";
    turn(slider.valueAsNumber === last ? 0 : slider.valueAsNumber);
    timer = setInterval(() => {
      if (slider.valueAsNumber === last) stop();
      else turn(slider.valueAsNumber + 1);
    }, PACE);
    return undefined;
  });
  element.replaceChildren(
    make("div", { class: "reel" }, play, slider),
    make("p", {}, said),
    make("div", { class: "cards three" }, ...scenes.map((scene) => scene.element)),
  );
  turn(last);
}

/** Move the line that marks a step in the chart of losses. */
function mark(chart, marker, step) {
  const { first, last, left, right, top, bottom } = chart.dataset;
  const at = Number(left) + ((step - first) / (last - first)) * (right - left);
  for (const end of ["x1", "x2"]) marker.setAttribute(end, at.toFixed(1));
  marker.setAttribute("y1", top);
  marker.setAttribute("y2", bottom);
}

/** Return the scene of an input: an image, a text that attends to itself, or a map of two texts. */
async function sceneOf(input) {
  const expected = input.right;
  const read = unitsOf(input.read, true);
  if (input.read.kind === "image") {
    return new ImageScene(read, await bitmapOf(input.read), expected);
  }
  if (input.wrote === null || input.wrote.kind === "image") return new TextScene(read, expected);
  return new MapScene(read, unitsOf(input.wrote, true), expected);
}

class Scene {
  constructor(expected) {
    this.answer = make("bdi");
    const right = expected ? [" · right: ", make("bdi", {}, expected)] : [];
    this.caption = make("figcaption", {}, "Answer: ", this.answer, ...right);
    this.element = make("figure", {}, this.caption);
  }

  turn([most, packed], answer) {
    this.answer.textContent = answer ? visible(answer) : "(empty)";
    this.caption.hidden = answer === undefined;
    this.draw(Float32Array.from(bytesOf(packed), (level) => (level / 255) * most));
  }

  /** @param {Float32Array} _weights */
  draw(_weights) {}
}

class TextScene extends Scene {
  constructor(read, expected) {
    super(expected);
    this.words = read.labels.map((label) => make("span", {}, label));
    const spaced = this.words.flatMap((word) => [word, " "]);
    this.element.prepend(make("p", { class: "shaded weighed", dir: "auto" }, ...spaced));
  }

  draw(weights) {
    this.words.forEach((word, i) => {
      word.style.setProperty("--weight", String(strength(weights[i], weights.length)));
    });
  }
}

class ImageScene extends Scene {
  constructor(read, bitmap, expected) {
    super(expected);
    this.grid = read.side.grid;
    this.canvas = make("canvas", { role: "img", "aria-label": "Attention over the image" });
    const { paper, plain } = placed(this.canvas, bitmap, 240);
    this.paper = paper;
    this.plain = plain;
    this.element.prepend(this.canvas);
  }

  draw(weights) {
    const cells = this.grid[0] * this.grid[1];
    const mean = new Float32Array(cells);
    weights.forEach((weight, i) => {
      mean[i % cells] += (weight * cells) / weights.length;
    });
    this.paper.putImageData(coveredBy(this.plain, mean, this.grid), 0, 0);
  }
}

class MapScene extends Scene {
  constructor(read, wrote, expected) {
    super(expected);
    this.columns = read.labels.length;
    const [names, heads] = [wrote.labels.map(cut), read.labels.map(cut)];
    const [left, top] = [roomOf(names), roomOf(heads)];
    const [across, down] = [left + CELL * heads.length, top + CELL * names.length];
    this.cells = names.flatMap((_, row) =>
      heads.map((_, column) => {
        const place = { x: left + column * CELL, y: top + row * CELL };
        return drawn("rect", { ...place, width: CELL - 1, height: CELL - 1, rx: 2 });
      }),
    );
    const rows = names.map((name, i) =>
      drawn("text", { x: left - 6, y: top + (i + 0.5) * CELL, class: "row" }, name),
    );
    const columns = heads.map((name, i) => {
      const turned = `translate(${left + (i + 0.5) * CELL} ${top - 6}) rotate(-90)`;
      return drawn("text", { transform: turned }, name);
    });
    const size = { viewBox: `0 0 ${across} ${down}`, width: across * ENLARGED };
    const named = { role: "img", "aria-label": "Attention map: rows attend to columns" };
    const parts = [...this.cells, ...rows, ...columns];
    this.element.prepend(drawn("svg", { ...size, ...named, class: "frames" }, ...parts));
  }

  draw(weights) {
    this.cells.forEach((cell, i) => {
      cell.setAttribute("fill-opacity", strength(weights[i], this.columns).toFixed(3));
    });
  }
}

/** Return the pixels that labels need. */
function roomOf(labels) {
  return 12 + LETTER * Math.max(...labels.map((label) => label.length));
}

function cut(label) {
  const letters = [...label];
  return letters.length > LETTERS ? `${letters.slice(0, LETTERS - 1).join("")}…` : label;
}
