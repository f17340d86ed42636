import { drawn } from "./dom.js";
import { strength } from "./numbers.js";

const MOST = 60; // words on a side for which lines are drawn
const WEAKEST = 0.3; // strength of a line that is drawn beside that of the strongest weight

/** Lines between the words of two texts: from each word to what it attends to most, and to whatever
    else has much of its attention. With a selection, all lines of that word. */
export class LinesView {
  /** @param {HTMLElement} element the element that holds both texts
      @param {import("./text_view.js").TextView} read
      @param {import("./text_view.js").TextView} wrote */
  constructor(element, read, wrote) {
    this.element = element;
    this.read = read;
    this.wrote = wrote;
    this.matrix = null;
    this.selection = null;
    this.svg = drawn("svg", { class: "lines", "aria-hidden": "true" });
    element.prepend(this.svg);
    element.classList.add("linked");
    new ResizeObserver(() => this.draw()).observe(element);
  }

  /** Return whether two texts are short enough for lines. */
  static suits(read, wrote) {
    return Math.max(read.labels.length, wrote.labels.length) <= MOST;
  }

  show(matrix, selection) {
    this.matrix = matrix;
    this.selection = selection;
    this.draw();
  }

  draw() {
    const box = this.element.getBoundingClientRect();
    if (!this.matrix || !box.width) return;
    const ends = (view, edge) =>
      view.buttons.map((button) => {
        const place = button.getBoundingClientRect();
        return [(place.left + place.right) / 2 - box.left, place[edge] - box.top];
      });
    const [from, to] = [ends(this.wrote, "top"), ends(this.read, "bottom")];
    this.svg.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
    this.svg.replaceChildren(
      ...this.links().map(([row, column, weight, kind]) => {
        const [[x1, y1], [x2, y2]] = [from[row], to[column]];
        const middle = (y1 + y2) / 2;
        return drawn("path", {
          d: `M${x1},${y1} C${x1},${middle} ${x2},${middle} ${x2},${y2}`,
          class: kind,
          "stroke-width": (0.75 + 2.5 * weight).toFixed(2),
          "stroke-opacity": (0.15 + 0.85 * weight).toFixed(3),
        });
      }),
    );
  }

  /** Return the lines to draw: [row, column, strength, class]. */
  links() {
    const { matrix, selection } = this;
    const links = [];
    for (let row = 0; row < matrix.rows; row++) {
      const weights = matrix.row(row);
      const best = weights.indexOf(Math.max(...weights));
      weights.forEach((weight, column) => {
        const strong = strength(weight, matrix.columns);
        const chosen = selection && (selection.side === "wrote" ? row : column) === selection.index;
        const kind = selection ? (chosen ? selection.side : "dim") : "wrote";
        const wanted = chosen ? strong > 0.1 : strong > WEAKEST || column === best;
        if (weight > 0 && wanted) links.push([row, column, strong, kind]);
      });
    }
    return links;
  }
}
