/* Fields for the input of a model: a text, a pair of texts, an image, or a file of vectors.

inputFor(reads, changed).element   the fields
               .value()           the input for the server, or null while it is empty
               .put(example)      fills the fields with an example of /v1/models
               .take(event)       accepts a file that was pasted or dropped anywhere on the page

changed(atOnce) is called when the input has changed; atOnce is false while the user types. */

import { brush, make } from "./dom.js";

const LARGE = 4 * 2 ** 20; // bytes above which an image is resized before it is sent
const LONGEST_SIDE = 1600; // pixels of a resized image
const TINY = 128; // pixels up to which an image is enlarged so that each is visible
const KINDS = "image/png,image/jpeg,image/gif,image/bmp,image/webp,image/tiff,.ppm";

export function inputFor(reads, changed) {
  if (reads === "image") return new ImageInput(changed);
  if (reads === "vectors") return new VectorInput(changed);
  const labels = reads === "pair" ? ["First text", "Second text"] : ["Text"];
  return new TextInput(labels, changed);
}

class TextInput {
  constructor(labels, changed) {
    this.changed = changed;
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

  /** Fill the fields with an example: a text, or a list of two. */
  put(example) {
    this.texts = [example].flat().map(String);
    this.changed(true);
  }

  take() {
    return false;
  }
}

class ImageInput {
  constructor(changed, kinds = KINDS, choose = "Choose an image") {
    this.changed = changed;
    this.sent = null;
    this.turn = 0;
    this.file = make("input", { type: "file", id: "image", accept: kinds, class: "unseen" });
    this.file.addEventListener("change", () => this.choose(this.file.files?.[0]));
    this.said = make("p", { class: "quiet", role: "status" });
    this.shown = make("div", { class: "shown" });
    this.zone = make(
      "div",
      { class: "drop" },
      this.shown,
      this.file,
      make("label", { for: "image", class: "button" }, choose),
      make("span", { class: "quiet" }, "or drop or paste one"),
    );
    this.element = make("div", {}, this.zone, this.said);
    for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
      const over = kind === "dragenter" || kind === "dragover";
      this.zone.addEventListener(kind, () => this.zone.classList.toggle("over", over));
    }
  }

  get texts() {
    return []; // a file has none
  }

  set texts(_) {}

  value() {
    return this.sent;
  }

  /** @param {File} file */
  accepts(file) {
    return file.type.startsWith("image/");
  }

  take(event) {
    const given = event.clipboardData ?? event.dataTransfer;
    const file = [...(given?.files ?? [])].find((one) => this.accepts(one));
    if (file) this.choose(file);
    return Boolean(file);
  }

  /** Choose an example: an image as a data URI. */
  put(example) {
    return this.choose(fileOf(example, "example"));
  }

  async choose(file) {
    if (!file) return;
    const mine = ++this.turn;
    try {
      const [content, note] = await resized(file);
      const address = await dataUri(content);
      if (mine !== this.turn) return; // another file was chosen meanwhile
      this.sent = content;
      this.shown.replaceChildren(imageElement(address));
      this.said.textContent = note;
    } catch (error) {
      if (mine !== this.turn) return;
      this.sent = null;
      this.shown.replaceChildren();
      this.said.textContent = `This file cannot be read as an image: ${error.message}`;
    }
    this.changed(true);
  }
}

class VectorInput extends ImageInput {
  constructor(changed) {
    super(changed, ".npy", "Choose a .npy file");
  }

  /** @param {File} file */
  accepts(file) {
    return /\.npy$/i.test(file.name);
  }

  async choose(file) {
    if (!file) return;
    this.sent = this.accepts(file) ? file : null;
    this.said.textContent = this.sent ? `${file.name}, ${file.size} bytes` : "Choose a .npy file.";
    this.changed(true);
  }
}

function imageElement(address) {
  const image = make("img", { src: address, alt: "Chosen image" });
  image.addEventListener("load", () => image.classList.toggle("tiny", image.naturalWidth < TINY));
  return image;
}

/** Return the file, or a resized image if it is large, and a note about that. */
async function resized(file) {
  if (file.size <= LARGE) return [file, ""];
  const bitmap = await createImageBitmap(file);
  const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height));
  const [width, height] = [bitmap.width, bitmap.height].map((side) => Math.ceil(side * scale));
  const canvas = make("canvas", { width, height });
  brush(canvas).drawImage(bitmap, 0, 0, width, height);
  const smaller = await new Promise((done) => canvas.toBlob(done, "image/jpeg", 0.92));
  return [smaller, `Large file: resized to ${width} × ${height} pixels.`];
}

/** Return the file in a data URI with base64.
    @param {string} address
    @param {string} name */
export function fileOf(address, name) {
  const [head, body] = address.split(",");
  const type = head.replace(/^data:/, "").replace(/;base64$/, "");
  const bytes = Uint8Array.from(atob(body), (letter) => letter.charCodeAt(0));
  return new File([bytes], name, { type });
}

/** Return a file as a data URI. */
function dataUri(content) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => done(reader.result));
    reader.addEventListener("error", () => failed(reader.error));
    reader.readAsDataURL(content);
  });
}
