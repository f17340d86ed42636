/* The page of the API: the routes of openapi.json, their fields, and a request to try. */

import { make } from "./dom.js";
import { fetchJson, fetchText, RequestError, token } from "./server.js";

const MOST_READABLE = 20_000; // characters of a response

const part = (id) => /** @type {any} */ (document.getElementById(id));

async function open() {
  try {
    const description = await fetchJson("/openapi.json");
    const models = await fetchJson("/v1/models");
    part("token").hidden = true;
    part("trouble").hidden = true;
    part("raw").hidden = Boolean(token.value); // a link cannot send the token
    show(description, models.data);
    part("work").hidden = false;
  } catch (error) {
    if (error instanceof RequestError && error.code === "no_token") return lock();
    part("trouble").textContent = error.message;
    part("trouble").hidden = false;
  }
  return undefined;
}

/** Show the token form. */
function lock() {
  const used = token.value;
  token.set("");
  part("token").hidden = false;
  part("token-said").textContent = used ? "This token is not valid for this server." : "";
  part("token-field").focus();
}

part("token").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = part("token-field").value.trim();
  token.set(/^[\x20-\x7e]*$/.test(text) ? text : "?"); // a header cannot have other characters
  open();
});

/** Show all routes of a description. */
function show(description, models) {
  const routes = Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, route]) => ({ path, method, route })),
  );
  part("contents").replaceChildren(
    make("ul", {}, ...routes.map((one) => make("li", {}, contentsLink(one)))),
  );
  part("routes").replaceChildren(
    ...routes.map((one) => section(one, description.components.schemas, models)),
  );
}

const anchor = ({ method, path }) => `${method}${path.replaceAll(/[^a-z0-9]+/gi, "-")}`;

function contentsLink(one) {
  return make("a", { href: `#${anchor(one)}` }, title(one));
}

function title({ method, path }) {
  return make("span", { class: "route" }, make("b", {}, method.toUpperCase()), ` ${path}`);
}

/** Return the description of one route. */
function section(one, schemas, models) {
  const { path, method, route } = one;
  /** @type {HTMLElement[]} */
  const parts = [make("h2", {}, title(one)), prose(route.description ?? "")];
  if (!path.includes("{")) parts.push(trial(one, schemas, models));
  for (const [kind, content] of Object.entries(route.requestBody?.content ?? {})) {
    const schema = resolved(content.schema, schemas);
    parts.push(make("h3", {}, "Body: ", make("code", {}, kind)), fieldTable(schema, schemas));
  }
  const answer = route.responses["200"]?.content?.["application/json"]?.schema;
  if (answer) {
    parts.push(make("h3", {}, "Response"), fieldTable(resolved(answer, schemas), schemas));
  }
  parts.push(statuses(route.responses));
  return make(
    "section",
    { class: "sheet", id: anchor(one), "aria-label": `${method} ${path}` },
    ...parts,
  );
}

/** Return a text in which `code` is marked. */
function prose(text) {
  const words = text.split("`").map((piece, i) => (i % 2 ? make("code", {}, piece) : piece));
  return make("p", {}, ...words);
}

function resolved(schema, schemas) {
  if (schema?.$ref) return schemas[schema.$ref.split("/").pop()];
  if (schema?.type === "array") return resolved(schema.items, schemas);
  return schema ?? {};
}

function fieldTable(schema, schemas) {
  const rows = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const needed = schema.required?.includes(name);
    const about = prose(field.description ?? "");
    if (needed) about.prepend(make("em", {}, "Required. "));
    else if (field.default !== undefined && field.default !== null)
      about.append(" Default: ", make("code", {}, JSON.stringify(field.default)), ".");
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, make("code", {}, name)),
      make("td", {}, make("span", { class: "quiet" }, kindOf(field, schemas)), about),
    );
  });
  if (!rows.length) return make("p", { class: "quiet" }, kindOf(schema, schemas));
  return make("table", { class: "fields" }, make("tbody", {}, ...rows));
}

/** Return the type of a field in words, with its limits. */
function kindOf(field, schemas) {
  if (field.$ref) {
    const inner = resolved(field, schemas);
    return inner.properties ? `object (${Object.keys(inner.properties).join(", ")})` : "object";
  }
  if (field.anyOf) {
    const kinds = field.anyOf.filter(({ type }) => type !== "null");
    return kinds.map((one) => kindOf(one, schemas)).join(" or ");
  }
  if (field.const !== undefined) return JSON.stringify(field.const);
  if (field.enum) return field.enum.map((value) => JSON.stringify(value)).join(" or ");
  const limits = [
    field.minimum !== undefined ? `at least ${counted(field.minimum)}` : "",
    field.maximum !== undefined ? `at most ${counted(field.maximum)}` : "",
    field.minItems !== undefined ? `at least ${field.minItems} item` : "",
    field.maxItems !== undefined ? `at most ${counted(field.maxItems)} items` : "",
  ].filter(Boolean);
  const name =
    field.type === "array" ? `list of ${kindOf(field.items ?? {}, schemas)}` : field.type;
  return [name ?? "any value", ...limits].join(", ");
}

function counted(number) {
  return number.toLocaleString("en", { maximumFractionDigits: 9 });
}

function statuses(responses) {
  const rows = Object.entries(responses).map(([status, { description }]) =>
    make("tr", {}, make("th", { scope: "row" }, status), make("td", {}, prose(description))),
  );
  const table = make("table", { class: "fields" }, make("tbody", {}, ...rows));
  return make("details", {}, make("summary", {}, "Statuses"), table);
}

/** Return a form that sends a request, and the same request for curl. */
function trial({ path, method, route }, schemas, models) {
  const content = route.requestBody?.content?.["application/json"];
  const id = `try-${anchor({ path, method })}`;
  const example = content ? exampleOf(path, resolved(content.schema, schemas), models) : undefined;
  const area = make("textarea", { id, rows: 5, spellcheck: "false" });
  area.value = example === undefined ? "" : JSON.stringify(example, null, 2);
  const curl = make("pre", { class: "code", tabindex: "0", "aria-label": "curl command" });
  const output = make("pre", { class: "code", tabindex: "0", "aria-label": "Response" });
  output.hidden = true;
  const status = make("span", { class: "quiet", role: "status" });
  const renew = () => {
    curl.textContent = curlCommand(path, content ? area.value : "", uploadModel(path, models));
  };
  area.addEventListener("input", renew);
  renew();
  const send = make("button", { type: "button", class: "main" }, "Send");
  send.addEventListener("click", async () => {
    send.disabled = true;
    status.textContent = "…";
    const began = performance.now();
    const result = await sent(path, content ? area.value : undefined);
    status.textContent = `${result.status} · ${Math.round(performance.now() - began)} ms`;
    output.textContent = readable(result.text);
    output.hidden = false;
    send.disabled = false;
  });
  const field = make("div", { class: "field" }, make("label", { for: id }, "Body"), area);
  const parts = content ? [field] : [];
  return make(
    "details",
    { class: "try" },
    make("summary", {}, "Try it"),
    ...parts,
    curl,
    make("div", { class: "row" }, send, status),
    output,
  );
}

/** Return short JSON with a line per value. */
function readable(text) {
  if (text.length > MOST_READABLE) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // such as a stream of events
  }
}

async function sent(path, text) {
  try {
    return await fetchText(path, text);
  } catch (error) {
    return { status: error.code ?? "failed", text: error.message };
  }
}

/** Return a request with the required fields, for a model of this server. */
function exampleOf(path, schema, models) {
  const model = modelFor(path, models);
  /** @type {Record<string, any>} */
  const example = model && "model" in schema.properties ? { model: model.id } : {};
  for (const name of schema.required ?? []) {
    const field = schema.properties[name];
    example[name] ??= field.examples?.[0] ?? "";
  }
  if (!model) return example;
  if (path === "/v1/predict" && model.reads === "pair") example.inputs = [["a text", "another"]];
  if (path === "/v1/predict" && model.reads === "vectors") example.inputs = [[[0.1, 0.2]]];
  if (path === "/v1/completions") example.prompt = schema.properties.prompt.examples?.[0] ?? "";
  if (path === "/translate") [example.source, example.target] = model.languages;
  return example;
}

function modelFor(path, models) {
  if (path === "/v1/completions") return models.find(({ streams }) => streams);
  if (path === "/translate") return models.find(({ languages }) => languages);
  return models.find(({ reads }) => !(reads in UPLOADS)) ?? models[0];
}

const UPLOADS = { image: "image=@photo.png", vectors: "vectors=@clip.npy" };

function uploadModel(path, models) {
  return path === "/v1/predict" ? models.find(({ reads }) => reads in UPLOADS) : undefined;
}

/** Return the request for a shell, with an upload if a model reads files. */
function curlCommand(path, body, reader) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const bearer = token.value ? " -H 'Authorization: Bearer TOKEN'" : "";
  const address = `curl ${location.origin}${path}${bearer}`;
  const lines = [body ? `${address} --json ${quoted(body.replaceAll(/\s*\n\s*/g, " "))}` : address];
  if (reader) lines.push(`${address} -F model=${reader.id} -F ${UPLOADS[reader.reads]}`);
  return lines.join("\n");
}

token.load();
open();
