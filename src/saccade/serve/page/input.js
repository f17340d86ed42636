/* The fields for what a model reads: a text, a pair of texts, or an image.

inputFor(reads, changed).element   the fields
               .value()           what is sent to the server, or null as long as nothing is there
               .take(event)       an image that was pasted or dropped anywhere on the page

`changed(at once)` is called when there is something else; typing waits until it pauses. */

import { brush, make } from "./view.js";

const LARGE = 4 * 2 ** 20; // bytes of an image that is made smaller before it is sent
const LONGEST_SIDE = 1600; // pixels, then
const TINY = 128; // pixels of an image up to which each is to be seen
const KINDS = "image/png,image/jpeg,image/gif,image/bmp,image/webp,image/tiff,.ppm";

export function inputFor(reads, changed) {
  if (reads === "image") return new ImageInput(changed);
  const labels = reads === "pair" ? ["First text", "Second text"] : ["Text"];
  return new TextInput(labels, changed);
}

class TextInput {
  constructor(labels, changed) {
    this.areas = labels.map((label, i) => {
      const id = `text-${i}`;
      const area = make("textarea", { id, rows: 4, dir: "auto", spellcheck: "false" });
      area.addEventListener("input", () => changed(false));
      const named = make("label", { for: id }, label);
      return { area, field: make("div", { class: "field" }, named, area) };
    });
    this.element = make("div", { class: "texts" }, ...this.areas.map(({ field }) => field));
  }

  get texts() {
    return this.areas.map(({ area }) => area.value);
  }

  set texts(texts) {
    this.areas.forEach(({ area }, i) => {
      area.value = texts[i] ?? "";
    });
  }

  value() {
    const { texts } = this;
    if (!texts.some((text) => text.trim())) return null;
    return texts.length > 1 ? texts : texts[0];
  }

  take() {
    return false;
  }
}

class ImageInput {
  constructor(changed) {
    this.changed = changed;
    this.sent = null;
    this.turn = 0;
    /** @type {string[]} */
    this.texts = []; // it has none
    this.file = make("input", { type: "file", id: "image", accept: KINDS, class: "unseen" });
    this.file.addEventListener("change", () => this.choose(this.file.files?.[0]));
    this.said = make("p", { class: "quiet", role: "status" });
    this.shown = make("div", { class: "shown" });
    this.zone = make(
      "div",
      { class: "drop" },
      this.shown,
      this.file,
      make("label", { for: "image", class: "button" }, "Choose an image"),
      make("span", { class: "quiet" }, "or drop it here, or paste it"),
    );
    this.element = make("div", {}, this.zone, this.said);
    for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
      const over = kind === "dragenter" || kind === "dragover";
      this.zone.addEventListener(kind, () => this.zone.classList.toggle("over", over));
    }
  }

  value() {
    return this.sent;
  }

  take(event) {
    const given = event.clipboardData ?? event.dataTransfer;
    const file = [...(given?.files ?? [])].find(({ type }) => type.startsWith("image/"));
    if (file) this.choose(file);
    return Boolean(file);
  }

  async choose(file) {
    if (!file) return;
    const mine = ++this.turn;
    try {
      const [content, note] = await modest(file);
      const address = await addressOf(content);
      if (mine !== this.turn) return; // another was chosen meanwhile
      this.sent = content;
      this.shown.replaceChildren(shownImage(address));
      this.said.textContent = note;
    } catch (error) {
      if (mine !== this.turn) return;
      this.sent = null;
      this.shown.replaceChildren();
      this.said.textContent = `This file cannot be read: ${error.message}`;
    }
    this.changed(true);
  }
}

function shownImage(address) {
  const image = make("img", { src: address, alt: "The chosen image" });
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth < TINY));
  return image;
}

/** The file, or a smaller image of the same if it is large, and a note that says so. */
async function modest(file) {
  if (file.size <= LARGE) return [file, ""];
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  const [width, height] = [bitmap.width, bitmap.height].map((side) => Math.ceil(side * scale));
  const canvas = make("canvas", { width, height });
  brush(canvas).drawImage(bitmap, 0, 0, width, height);
  const smaller = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.92));
  return [smaller, `A large file: it is sent as ${width} × ${height} pixels.`];
}

/** A file as an address that holds it: data:... */
function addressOf(content) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => done(reader.result));
    reader.addEventListener("error", () => failed(reader.error));
    reader.readAsDataURL(content);
  });
}
