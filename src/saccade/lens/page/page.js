/* What a self-contained page starts: the attention view and the film of learning, if it has them. */

import { showFilm } from "./film.js";
import { show } from "./view.js";

start("inputs", "view", show);
start("frames", "film", showFilm);

/** Give the JSON of the page's element to `begin`, with the element that shows it. */
function start(data, place, begin) {
  const source = document.getElementById(data);
  const element = document.getElementById(place);
  if (source && element) begin(element, JSON.parse(source.textContent ?? ""));
}
