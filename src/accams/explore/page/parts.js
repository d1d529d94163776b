// Parts that several views share: titles, links, bars of predictions, lists, and the waterfall that explains one.

import { count, h, number, s, signed } from "./dom.js";

/** Return the address of a view: `place("item/7", { r: "1:5" })`. */
export function place(path, parameters = {}, model = null) {
  const given = Object.entries({ ...parameters, m: model ?? current().m });
  const query = new URLSearchParams(given.filter(([, x]) => x !== null && x !== undefined && x !== ""));
  return `#/${path}${query.size ? `?${query}` : ""}`;
}

/** Return the path and the parameters of the address that is shown. */
export function current() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { path, ...Object.fromEntries(new URLSearchParams(query)) };
}

/** Return a title (or the id of an item without one), in the direction in which it is written; a long one is cut. */
export function titleOf(ref, most = 200) {
  const text = [ref.title, String(ref.item)].find((each) => each?.trim()) ?? "(no name)";
  if (text.length <= most) return h("bdi", { class: "title" }, text);
  return h("bdi", { class: "title", title: text.slice(0, 1000) }, `${Array.from(text.slice(0, most)).slice(0, -1).join("")}…`);
}

/** Return a link to an item. */
export const itemLink = (ref, model) => h("a", { href: place(`item/${encodeURIComponent(ref.item)}`, {}, model) }, titleOf(ref));

/** Return titles one after another, with commas. */
export function named(refs) {
  return refs.flatMap((ref, p) => (p ? [", ", titleOf(ref, 60)] : [titleOf(ref, 60)]));
}

/** Return what a cluster of users is called: what they like. */
export function usersCalled(block, most = 3) {
  if (!block.likes.length) return [`all ${count(block.size)} users`];
  return [`${count(block.size)} users who like `, ...named(block.likes.slice(0, most))];
}

/** Return what a cluster of items is called: its best known members. */
export function itemsCalled(block, most = 3) {
  if (!block.members.length) return [`${count(block.size)} items`];
  return [`${count(block.size)} items like `, ...named(block.members.slice(0, most))];
}

/** Return the message of an error, as part of a page. */
export function failure(error) {
  return h("p", { class: "failure", role: "alert" }, error.detail ?? error.message ?? String(error));
}

/** Return the value that says most clearly that an item is liked. */
export const likeOf = (info) => (info.values ? info.values[1] : info.like ?? 1);

/** Return ratings as text of an address, and back. */
export const toText = (rated) => [...rated].map(([id, value]) => `${encodeURIComponent(id)}:${value}`).join(",");

export function fromText(text) {
  const pairs = (text ?? "").split(",").filter(Boolean).map((pair) => pair.split(":"));
  return new Map(pairs.map(([id, value]) => [decodeURIComponent(id), Number(value)]).filter(([, x]) => Number.isFinite(x)));
}

/** Return a bar from the lowest value to a prediction, with its interval. */
function bar(line, [low, high]) {
  const at = (x) => (100 * (Math.min(Math.max(x, low), high) - low)) / (high - low || 1);
  const parts = [s("rect", { class: "track", x: 0, y: 3, width: 100, height: 4, rx: 1 })];
  parts.push(s("rect", { class: "level", x: 0, y: 3, width: at(line.prediction), height: 4, rx: 1 }));
  if (line.low !== undefined && line.low !== null) {
    parts.push(s("rect", { class: "interval", x: at(line.low), y: 4.4, width: Math.max(0, at(line.high) - at(line.low)), height: 1.2 }));
  }
  return s("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, parts);
}

function told(line) {
  if (line.low === undefined || line.low === null) return number(line.prediction);
  return `${number(line.prediction)}, with ${number(line.low)} to ${number(line.high)} likely`;
}

/** Return a list of recommended items, each of which says why it is there. */
export function recommended(source, answer, who, changes = null) {
  const { values } = source.info;
  const rows = answer.items.map((line) => {
    const shows = line.prediction !== null && values;
    const score = shows ? number(line.prediction) : line.score.toPrecision(3);
    const why = h("div", { class: "why", hidden: true });
    const button = h("button", { type: "button", class: "quiet", "aria-expanded": "false" }, "why?");
    button.setAttribute("aria-label", `why ${line.title ?? line.item}?`);
    button.addEventListener("click", async () => {
      why.hidden = !why.hidden;
      button.setAttribute("aria-expanded", String(!why.hidden));
      if (why.hidden || why.childNodes.length) return;
      try {
        why.replaceChildren(explanation(await source.explain({ ...who, item: line.item, by: answer.by })));
      } catch (error) {
        why.replaceChildren(failure(error));
      }
    });
    const moved = changes?.get(line.item);
    return h("li", { class: "recommended", "data-item": line.item },
      h("div", { class: "line" },
        h("span", { class: "rank" }, line.rank),
        h("span", { class: "what" }, itemLink(line, source.info.model), moved && h("span", { class: `moved ${moved.kind}` }, moved.text)),
        shows && bar(line, values),
        h("span", { class: "score", title: shows ? told(line) : null }, score),
        button),
      why);
  });
  const note = answer.rule ? h("p", { class: "note" }, `These are ${answer.rule === "average user" ? "for the average user: nothing is known of this one" : answer.rule}.`) : null;
  if (!rows.length) return h("p", { class: "note" }, "There is nothing left to recommend.");
  return h("div", {}, note, h("ol", { class: "list" }, rows));
}

// -- the waterfall ------------------------------------------------------------------------------------------

/** Tell which features put somebody new, or something new, into a cluster. */
function by(traits) {
  return traits.length ? ` (by ${traits.join(" and ")})` : "";
}

function steps(why) {
  if (why.by === "choice") {
    const terms = why.terms.map((term) => ({ value: term.value, text: ["because of ", titleOf(term)] }));
    const rest = [{ value: why.popularity, text: ["its popularity"] }, { value: why.others, text: ["other items of the history"] }];
    const all = [...terms, ...rest.filter((step) => step.value !== 0)];
    return all.length ? all : [{ value: 0, text: ["nothing else in the history speaks for it"] }];
  }
  const terms = why.terms.map((term) => ({
    value: term.value,
    text: [...usersCalled(term.users, 2), by(term.user_traits), " · ", ...itemsCalled(term.items, 2), by(term.item_traits)],
    link: place(`stencil/${term.stencil}`, { row: term.users.label, col: term.items.label }),
    name: `stencil ${term.stencil}`,
  }));
  terms.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  const rest = [
    { value: why.others, text: ["all other stencils"] },
    { value: why.effects, text: ["how this user and this item are rated in general"] },
    { value: why.remainder, text: ["what many draws say beyond this"] },
    { value: why.clipping, text: ["to be on the scale of the values"] },
  ];
  return [...terms, ...rest.filter((step) => Math.abs(step.value) > 1e-12)];
}

/** Gather the smallest steps into one, so that a waterfall stays readable. */
function gathered(all, most) {
  if (all.length <= most) return all;
  const order = [...all.keys()].sort((a, b) => Math.abs(all[b].value) - Math.abs(all[a].value));
  const kept = new Set(order.slice(0, most - 1));
  const small = all.filter((_, p) => !kept.has(p));
  const value = small.reduce((sum, step) => sum + step.value, 0);
  return [...all.filter((_, p) => kept.has(p)), { value, text: [`${small.length} smaller terms together`], rest: small }];
}

/** Return a waterfall: where a prediction starts, what each term adds, and where it ends. */
export function explanation(why, most = 8) {
  const isValue = why.by === "value";
  const [start, end] = isValue ? [why.offset, why.prediction] : [0, why.score];
  const all = gathered(steps(why), most);
  const ends = [start];
  for (const step of all) ends.push(ends.at(-1) + step.value);
  const [low, high] = [Math.min(...ends, end), Math.max(...ends, end)];
  const pad = (high - low || 1) * 0.04;
  const at = (x) => (100 * (x - low + pad)) / (high - low + 2 * pad);
  const digits = isValue ? 2 : 4;
  const drawn = (from, to, kind) => s("svg", { class: "fall", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: kind, x: Math.min(at(from), at(to)), y: 1, width: Math.max(0.4, Math.abs(at(to) - at(from))), height: 8 }));
  const row = (kind, amount, text, picture, link, name) => h("tr", { class: kind },
    h("th", { scope: "row" }, text, link && [" ", h("a", { class: "small", href: link }, name)]),
    h("td", { class: "amount" }, amount),
    h("td", { class: "picture" }, picture));
  const body = [];
  if (isValue) body.push(row("edge", number(start, digits), "the average of everything", drawn(low - pad, start, "edge")));
  all.forEach((step, p) => {
    const kind = step.value < 0 ? "minus" : "plus";
    body.push(row(kind, signed(step.value, digits), step.text, drawn(ends[p], ends[p + 1], kind), step.link, step.name));
  });
  body.push(row("edge total", number(end, digits), isValue ? "the prediction" : "the score", drawn(low - pad, end, "edge")));
  return h("table", { class: "waterfall", "data-total": ends.at(-1) + (why.rounding ?? 0) },
    h("caption", { class: "hidden" }, `Why ${why.title ?? why.item}: what adds up to ${number(end, digits)}`),
    h("tbody", {}, body));
}
