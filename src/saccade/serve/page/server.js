/* Talks with the server: the token, what goes wrong, waiting when it is full, and streams.

ask(path, body, talk)      the answer as JSON; without a body it is fetched
pieces(path, body, talk)   the events of a stream, one after the other

`talk` has a signal that ends it, and may have wait(seconds), called when the server is full.
What goes wrong is a Refused, whose message is a sentence for people. */

const TRIES = 4; // when the server is full
const LONGEST_WAIT = 10; // seconds
const KEPT = "saccade-token";

/** @typedef {{ signal?: AbortSignal, wait?: (seconds: number) => void }} Talk */

/** Something that was not answered; `code` is the server's, or "gone" if there is no server. */
export class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** The token of this tab. */
export const token = {
  value: "",

  load() {
    try {
      this.value = sessionStorage.getItem(KEPT) ?? "";
    } catch {
      this.value = ""; // a browser that keeps nothing asks again after each reload
    }
  },

  set(value) {
    this.value = value;
    try {
      if (value) sessionStorage.setItem(KEPT, value);
      else sessionStorage.removeItem(KEPT);
    } catch {
      // kept in memory
    }
  },
};

/** @param {string} path
    @param {any} [body]
    @param {Talk} talk */
export async function ask(path, body, talk = {}) {
  const response = await answered(path, body, talk);
  return read(() => response.json());
}

/** @param {string} path
    @param {any} body
    @param {Talk} talk */
export async function* pieces(path, body, talk = {}) {
  const response = await answered(path, body, talk);
  const lines = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    while (true) {
      const { value, done } = await read(() => lines.read());
      if (done) throw new Refused("gone", "The server ended in the middle of its answer.");
      const events = (rest + value).split("\n\n");
      rest = events.pop() ?? "";
      for (const event of events) {
        const said = event.replace(/^data: /, "");
        if (said === "[DONE]") return;
        const piece = JSON.parse(said);
        if (piece.error) throw new Refused(piece.error.code, piece.error.message);
        yield piece;
      }
    }
  } finally {
    lines.cancel().catch(() => {}); // it may be over already
  }
}

/** A good response; while the server is full, it is asked again a few times.
    @param {string} path
    @param {any} body
    @param {Talk} talk */
async function answered(path, body, { signal, wait }) {
  for (let left = TRIES - 1; ; left--) {
    const response = await read(() => fetch(path, request(body, signal)));
    if (response.ok) return response;
    const refused = await refusal(response);
    if (response.status !== 429 || left === 0) throw refused;
    const seconds = Math.min(Number(response.headers.get("Retry-After")) || 1, LONGEST_WAIT);
    wait?.(seconds);
    await passed(seconds, signal);
  }
}

function request(body, signal) {
  /** @type {Record<string, string>} */
  const headers = token.value ? { Authorization: `Bearer ${token.value}` } : {};
  if (body === undefined) return { headers, signal };
  if (body.inputs?.some((input) => input instanceof Blob)) {
    return { method: "POST", headers, body: upload(body), signal }; // fetch names the boundary
  }
  headers["Content-Type"] = "application/json";
  return { method: "POST", headers, body: JSON.stringify(body), signal };
}

/** Images as files, which may be larger than JSON. */
function upload({ inputs, ...rest }) {
  const form = new FormData();
  form.append("request", JSON.stringify(rest));
  for (const image of inputs) form.append("image", image);
  return form;
}

async function refusal(response) {
  try {
    const { error } = await response.json();
    return new Refused(error.code, String(error.message));
  } catch {
    return new Refused("failed", `The server answered with status ${response.status}.`);
  }
}

/** What the network gives; when it breaks, that is said in a sentence. */
async function read(get) {
  try {
    return await get();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused("gone", "The server does not answer. Is it running, and can it be reached?");
  }
}

/** @returns {Promise<void>} */
function passed(seconds, signal) {
  return new Promise((resolve, reject) => {
    const over = () => reject(new DOMException("no longer wanted", "AbortError"));
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
