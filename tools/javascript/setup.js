// What the tests of the pages' scripts need in node: a document, and modules that find each other.
// The server serves the scripts of both folders below one path, so one imports the other as "./name".

import { existsSync } from "node:fs";
import { register } from "node:module";
import { parseHTML } from "linkedom";

const folders = ["lens", "serve"].map((name) => `../../src/saccade/${name}/page/`);
const places = folders.map((folder) => new URL(folder, import.meta.url).href);
const hook = `
  import { existsSync } from "node:fs";
  import { fileURLToPath } from "node:url";
  const places = ${JSON.stringify(places)};
  export async function resolve(name, context, next) {
    const file = name.split("/").pop();
    for (const place of name.startsWith(".") ? places : []) {
      const url = new URL(file, place).href;
      const format = "module";
      if (existsSync(fileURLToPath(url))) return { url, format, shortCircuit: true };
    }
    return next(name, context);
  }
`;
register(`data:text/javascript,${encodeURIComponent(hook)}`);

const { document, window } = parseHTML("<!doctype html><html><body></body></html>");
Object.assign(globalThis, {
  document,
  HTMLElement: window.HTMLElement,
  Event: window.Event,
  matchMedia: () => new EventTarget(),
});
Object.defineProperty(window.HTMLSelectElement.prototype, "value", {
  get() {
    return ([...this.options].find(({ selected }) => selected) ?? this.options[0])?.value ?? "";
  },
  set(value) {
    const option = [...this.options].find((one) => one.value === String(value));
    if (option) option.selected = true;
  },
});
if (!existsSync(new URL(places[0]))) throw new Error("the scripts of the pages are not there");
