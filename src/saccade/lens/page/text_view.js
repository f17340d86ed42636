import { make } from "./dom.js";
import { strength } from "./numbers.js";

/** A text whose words can be selected with pointer and arrow keys, and shaded. */
export class TextView {
  constructor(units, name, pointer) {
    this.pointer = pointer;
    this.buttons = units.labels.map((label) => make("button", { type: "button" }, label));
    for (const button of this.buttons) button.tabIndex = -1;
    if (this.buttons.length) this.buttons[0].tabIndex = 0;
    this.element = make(
      "div",
      { class: "text", dir: "auto", role: "toolbar", "aria-label": name },
      ...this.buttons,
    );
    this.listen();
  }

  listen() {
    const on = (kind, react) =>
      this.element.addEventListener(kind, (event) => {
        const index = this.buttons.indexOf(event.target);
        if (index >= 0) react(index, event);
      });
    on("pointerover", (index) => this.pointer.over(index));
    on("focusin", (index) => this.enter(index));
    on("focusout", () => this.pointer.leave());
    on("click", (index) => this.pointer.pin(index));
    on("keydown", (index, event) => this.walk(index, event));
    this.element.addEventListener("pointerleave", () => this.pointer.leave());
  }

  enter(index) {
    for (const button of this.buttons) button.tabIndex = -1;
    this.buttons[index].tabIndex = 0;
    this.pointer.over(index);
  }

  walk(index, event) {
    const onward = getComputedStyle(this.element).direction === "rtl" ? -1 : 1;
    const places = {
      ArrowRight: () => index + onward,
      ArrowLeft: () => index - onward,
      ArrowDown: () => this.inNextLine(index, 1),
      ArrowUp: () => this.inNextLine(index, -1),
      Home: () => 0,
      End: () => this.buttons.length - 1,
    };
    if (!(event.key in places)) return;
    event.preventDefault();
    this.buttons[places[event.key]()]?.focus();
  }

  /** Return the nearest button in the line below (1) or above (-1). */
  inNextLine(index, way) {
    const boxes = this.buttons.map((button) => button.getBoundingClientRect());
    const middle = (box) => (box.left + box.right) / 2;
    const lines = boxes.map((box) => box.top).filter((top) => way * (top - boxes[index].top) > 1);
    const line = way > 0 ? Math.min(...lines) : Math.max(...lines);
    const away = (i) => Math.abs(middle(boxes[i]) - middle(boxes[index]));
    const there = [...boxes.keys()].filter((i) => Math.abs(boxes[i].top - line) <= 1);
    return there.sort((one, other) => away(one) - away(other))[0];
  }

  /** Shade the words by these values, or remove the shading. */
  shade(values) {
    this.buttons.forEach((button, i) => {
      const weight = values ? strength(values[i], values.length) : 0;
      button.style.setProperty("--weight", String(weight));
    });
  }

  mark(index, pinned) {
    this.buttons.forEach((button, i) => {
      button.classList.toggle("marked", i === index);
      button.setAttribute("aria-pressed", String(pinned && i === index));
    });
  }
}
