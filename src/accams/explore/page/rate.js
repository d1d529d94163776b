// Rate a few items and watch the list change.

import { h, later, number } from "./dom.js";
import { failure, fromText, itemLink, likeOf, place, recommended, toText } from "./parts.js";
import { searchBox } from "./searchbox.js";

const ENOUGH = 5;
const MOST_STEPS = 10; // values that have a button each

/** Return what a rating can be: buttons for a few whole numbers, else a slider; or a like. */
function scale(info) {
  if (!info.values) return { values: [likeOf(info)], names: ["like"] };
  const [low, high] = info.values;
  if (Number.isInteger(low) && Number.isInteger(high) && high > low && high - low < MOST_STEPS) {
    return { values: Array.from({ length: high - low + 1 }, (_, p) => low + p) };
  }
  return { low, high };
}

function rater(ref, value, kinds, rate) {
  const name = ref.title ?? String(ref.item);
  if (kinds.values) {
    const buttons = kinds.values.map((x, p) => h("button", {
      type: "button", class: "star", "data-rate": `${ref.item}:${x}`, "aria-pressed": String(x === value), "aria-label": `rate ${name}: ${kinds.names?.[p] ?? x}`,
      onclick: () => rate(ref, x === value ? null : x),
    }, kinds.names?.[p] ?? x));
    return h("span", { class: "stars", role: "group", "aria-label": `rating of ${name}` }, buttons);
  }
  const shown = h("output", {}, value === undefined ? "–" : number(value));
  const input = h("input", { type: "range", "data-rate": `${ref.item}:`, min: kinds.low, max: kinds.high, step: (kinds.high - kinds.low) / 100, value: value ?? (kinds.low + kinds.high) / 2, "aria-label": `rate ${name}` });
  input.addEventListener("input", () => { shown.value = number(Number(input.value)); });
  input.addEventListener("change", () => rate(ref, Number(input.value)));
  return h("span", { class: "stars" }, input, shown);
}

/** The view: what was rated at the left, the list at the right. */
export async function rate({ source, sources }, _, given) {
  const rated = fromText(given.r);
  const kinds = scale(source.info);
  const known = new Map();
  const { items: ideas } = await source.items({ n: 80 });
  for (const ref of ideas) known.set(String(ref.item), ref);
  for (const id of rated.keys()) {
    if (known.has(id)) continue;
    try {
      const { item, title } = await source.item(id);
      known.set(id, { item, title });
    } catch (error) {
      if (error.status !== 404) throw error;
      rated.delete(id); // not in this model
    }
  }
  let first = 0;
  const own = h("ul", { class: "plain rated", "aria-label": "Your ratings" });
  const more = h("ul", { class: "plain rated", "aria-label": "Suggestions" });
  const list = h("div", { class: "live", "aria-live": "polite", "aria-busy": "false" });
  const progress = h("p", { class: "note", role: "status" });
  const links = h("p", { class: "actions" });
  let turn = 0;

  const line = (ref) => h("li", { class: "line" }, h("span", { class: "what" }, itemLink(ref)), rater(ref, rated.get(String(ref.item)), kinds, change));

  function draw() {
    const { rate: focused } = document.activeElement?.dataset ?? {};
    own.replaceChildren(...[...rated.keys()].map((id) => line(known.get(id))));
    const left = ideas.filter((ref) => !rated.has(String(ref.item)));
    more.replaceChildren(...left.slice(first % (left.length || 1)).concat(left).slice(0, Math.min(8, left.length)).map(line));
    if (focused) document.querySelector(`[data-rate="${CSS.escape(focused)}"]`)?.focus(); // it has moved
    const missing = ENOUGH - rated.size;
    progress.textContent = missing > 0 ? `Rate ${missing} more ${missing === 1 ? "item" : "items"} for a list of your own.` : `${rated.size} ratings. Each one more makes it better.`;
    links.replaceChildren(...(rated.size && sources.length > 1 ? [h("a", { class: "button", href: place("compare", { r: toText(rated) }) }, "Compare models")] : []));
  }

  const ask = later(async () => {
    const now = (turn += 1);
    if (!rated.size) return list.replaceChildren(h("p", { class: "note" }, "Your list appears here with the first rating."));
    list.setAttribute("aria-busy", "true");
    const who = { rated: Object.fromEntries(rated) };
    try {
      const answer = await source.recommend({ ...who, n: 12, ...(source.info.spread ? { interval: 0.8 } : {}) });
      if (now === turn) exchange(list, recommended(source, answer, who));
    } catch (error) {
      if (now === turn) list.replaceChildren(failure(error));
    }
    list.setAttribute("aria-busy", "false");
  }, 30);

  function change(ref, value) {
    const id = String(ref.item);
    known.set(id, ref);
    if (value === null) rated.delete(id);
    else rated.set(id, value);
    history.replaceState(null, "", place("rate", { r: toText(rated) }));
    draw();
    ask();
  }

  draw();
  ask();
  const box = searchBox(() => source, (ref) => change(ref, likeOf(source.info)), { label: "Find something to rate" });
  return h("div", {}, h("h1", {}, "Rate a few, and watch"),
    h("div", { class: "two" },
      h("section", {}, progress, box, own, h("h2", {}, "Do you know these?"), more,
        ideas.length > 8 && h("button", { type: "button", class: "quiet", onclick: () => { first += 8; draw(); } }, "show others")),
      h("section", {}, h("h2", {}, "Your list"), list, links)));
}

/** Exchange a list for a new one, and let its lines move to their new places. */
function exchange(box, next) {
  const before = new Map([...box.querySelectorAll("[data-item]")].map((row) => [row.dataset.item, row.getBoundingClientRect().top]));
  box.replaceChildren(next);
  if (matchMedia("(prefers-reduced-motion: reduce)").matches || !before.size) return;
  for (const row of box.querySelectorAll("[data-item]")) {
    const was = before.get(row.dataset.item);
    const from = was === undefined ? { opacity: 0 } : { transform: `translateY(${was - row.getBoundingClientRect().top}px)` };
    row.animate([from, { opacity: 1, transform: "none" }], { duration: 260, easing: "ease-out" });
  }
}

