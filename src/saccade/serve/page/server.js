/* Requests to the server: the token, errors, retries when it is full, and streams.

fetchJson(path, body, talk)     the response as JSON; GET without a body, POST with one
fetchEvents(path, body, talk)   the events of a stream, one after the other
fetchText(path, text)           the status and text of any response, to a body that is JSON already

`talk` has a signal that cancels the request, and may have wait(seconds), which is called before a
retry. Both throw a RequestError, whose message is for people. */

const TRIES = 4; // while the server is full
const LONGEST_WAIT = 10; // seconds
const KEPT = "saccade-token";

/** @typedef {{ signal?: AbortSignal, wait?: (seconds: number) => void }} Talk */

/** A failed request; `code` is the server's, or "gone" if it does not respond. */
export class RequestError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** The token, kept for this tab. */
export const token = {
  value: "",

  load() {
    try {
      this.value = sessionStorage.getItem(KEPT) ?? "";
    } catch {
      this.value = ""; // without storage, the user enters it again after each reload
    }
  },

  set(value) {
    this.value = value;
    try {
      if (value) sessionStorage.setItem(KEPT, value);
      else sessionStorage.removeItem(KEPT);
    } catch {
      // keep it in memory only
    }
  },
};

/** @param {string} path
    @param {any} [body]
    @param {Talk} talk */
export async function fetchJson(path, body, talk = {}) {
  const response = await fetchResponse(path, body, talk);
  return read(() => response.json());
}

/** @param {string} path
    @param {string} [text] */
export async function fetchText(path, text) {
  /** @type {RequestInit} */
  const options = { headers: headersOf(text !== undefined) };
  if (text !== undefined) Object.assign(options, { method: "POST", body: text });
  const response = await read(() => fetch(path, options));
  return { status: response.status, text: await read(() => response.text()) };
}

/** @param {string} path
    @param {any} body
    @param {Talk} talk */
export async function* fetchEvents(path, body, talk = {}) {
  const response = await fetchResponse(path, body, talk);
  const lines = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    while (true) {
      const { value, done } = await read(() => lines.read());
      if (done)
        throw new RequestError("gone", "The connection ended in the middle of the response.");
      const events = (rest + value).split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events) {
        const data = event.replace(/^data: /, "");
        if (data === "[DONE]") return;
        const item = JSON.parse(data);
        if (item.error) throw new RequestError(item.error.code, item.error.message);
        yield item;
      }
    }
  } finally {
    lines.cancel().catch(() => {}); // the stream may have ended already
  }
}

/** Return a successful response; while the server is full, retry a few times.
    @param {string} path
    @param {any} body
    @param {Talk} talk */
async function fetchResponse(path, body, { signal, wait }) {
  for (let left = TRIES - 1; ; left--) {
    const response = await read(() => fetch(path, requestOptions(body, signal)));
    if (response.ok) return response;
    const error = await errorOf(response);
    if (response.status !== 429 || left === 0) throw error;
    const seconds = Math.min(Number(response.headers.get("Retry-After")) || 1, LONGEST_WAIT);
    wait?.(seconds);
    await sleep(seconds, signal);
  }
}

function requestOptions(body, signal) {
  if (body === undefined) return { headers: headersOf(false), signal };
  if (body.inputs?.some((input) => input instanceof Blob)) {
    const headers = headersOf(false); // fetch adds the boundary
    return { method: "POST", headers, body: upload(body), signal };
  }
  return { method: "POST", headers: headersOf(true), body: JSON.stringify(body), signal };
}

/** Return the headers of a request: the token, and the type of a JSON body. */
function headersOf(json) {
  /** @type {Record<string, string>} */
  const headers = token.value ? { Authorization: `Bearer ${token.value}` } : {};
  if (json) headers["Content-Type"] = "application/json";
  return headers;
}

/** Return a form with images or .npy files, which may be larger than JSON. */
function upload({ inputs, ...rest }) {
  const form = new FormData();
  form.append("request", JSON.stringify(rest));
  for (const file of inputs) form.append(/\.npy$/i.test(file.name) ? "vectors" : "image", file);
  return form;
}

async function errorOf(response) {
  try {
    const { error } = await response.json();
    return new RequestError(error.code, String(error.message));
  } catch {
    return new RequestError("failed", `The server responded with status ${response.status}.`);
  }
}

/** Return the result of a network call; turn a broken connection into a RequestError. */
async function read(get) {
  try {
    return await get();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError(
      "gone",
      "The server does not respond. Check that it is running and reachable.",
    );
  }
}

/** @returns {Promise<void>} */
function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    const over = () => reject(new DOMException("cancelled", "AbortError"));
    if (signal?.aborted) return over();
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", end);
      resolve();
    }, seconds * 1000);
    const end = () => {
      clearTimeout(timer);
      over();
    };
    signal?.addEventListener("abort", end, { once: true });
    return undefined;
  });
}
