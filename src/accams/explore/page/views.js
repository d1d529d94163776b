// Views of a model, of an item, of a user, of the tree, and of two models side by side.

import { count, h, number, signed } from "./dom.js";
import { failure, fromText, itemLink, itemsCalled, likeOf, named, place, recommended, titleOf, usersCalled } from "./parts.js";

const kilobytes = (bytes) => (bytes < 1e6 ? `${(bytes / 1e3).toFixed(bytes < 1e4 ? 1 : 0)} KB` : `${(bytes / 1e6).toFixed(1)} MB`);

function card(title, text, link, call) {
  return h("a", { class: "card", href: link }, h("h2", {}, title), h("p", {}, text), h("span", { class: "call" }, call));
}

/** What the model is, and where to go. */
export async function home({ source, sources }) {
  const info = source.info;
  const facts = [
    [count(info.users), "users"], [count(info.items), "items"], [count(info.stencils), "stencils"], [kilobytes(info.bytes), "on disk"],
    info.rmse !== null && [number(info.rmse, 4), "held-out RMSE"], info.draws && [count(info.draws), "draws"],
  ].filter(Boolean);
  const { items: known } = await source.items({ n: 24 });
  return h("div", {},
    h("h1", {}, info.model),
    h("dl", { class: "facts" }, facts.map(([value, name]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    h("div", { class: "cards" },
      card("Rate a few", "Rate five items and watch your own list change with each of them.", place("rate"), "start rating"),
      card("The map", "Items that are liked by the same people lie close together.", place("map"), "open the map"),
      info.predicts && card("Stencils", "The small tables whose sum is every prediction, with the groups that they join.", place("stencils"), "look inside"),
      card("The tree", "Items split by what separates them most, level by level.", place("tree"), "climb it"),
      sources.length > 1 && card("Side by side", "The same person before two models.", place("compare"), "compare")),
    h("section", {}, h("h2", {}, "Well-known items"), h("ul", { class: "plain columns3" }, known.map((ref) => h("li", {}, itemLink(ref))))));
}

/** An item: what is like it, who likes it, and where it is in the tree. */
export async function item({ source }, id) {
  const about = await source.item(id);
  const alike = await source.similar({ item: about.item, n: 12 }).catch((error) => error);
  return h("article", {},
    h("p", { class: "over" }, "Item ", h("code", {}, String(about.item))),
    h("h1", {}, titleOf(about)),
    h("p", { class: "actions" },
      h("a", { class: "button", href: place("rate", { r: `${encodeURIComponent(about.item)}:${likeOf(source.info)}` }) }, "What else would I like?"),
      h("a", { class: "button", href: place("map", { item: about.item }) }, "Show on the map")),
    about.average !== null && h("p", {}, "The average user would rate it ", h("strong", {}, number(about.average)), "."),
    h("div", { class: "two" },
      h("section", {}, h("h2", {}, "Similar items"), alike.items ? similarOnes(alike.items) : failure(alike)),
      h("section", {},
        about.liked_by.length > 0 && [h("h2", {}, "Who likes it"), likers(about.liked_by)],
        about.path.length > 1 && [h("h2", {}, "Its place in the tree"), pathOf(about.path)])),
    about.blocks.length > 0 && h("details", {}, h("summary", {}, `Its group in each of ${about.blocks.length} stencils`),
      h("ul", { class: "plain" }, about.blocks.map((block) => h("li", {},
        h("a", { href: place(`stencil/${block.stencil}`, { col: block.label }) }, `stencil ${block.stencil}`), ": ", itemsCalled(block))))));
}

const similarOnes = (items) => h("ol", { class: "list" }, items.map((line) => h("li", { class: "line" },
  h("span", { class: "what" }, itemLink(line)), h("span", { class: "score" }, number(line.score)))));

const likers = (blocks) => h("ul", { class: "plain" }, blocks.map((block) => h("li", {},
  h("span", { class: `amount ${block.value < 0 ? "minus" : "plus"}` }, signed(block.value)), " ", usersCalled(block), " ",
  h("a", { class: "small", href: place(`stencil/${block.stencil}`, { row: block.label }) }, `stencil ${block.stencil}`))));

const pathOf = (path) => h("ol", { class: "path" }, path.map((node) => h("li", {}, `${count(node.size)}: `, named(node.members.slice(0, 4)))));

/** A user: the list, and what is known. */
export async function user({ source }, id) {
  const about = await source.user(id);
  const who = { user: about.user };
  const spread = source.info.spread ? { interval: 0.8 } : {};
  const list = await source.recommend({ ...who, n: 15, ...spread }).catch((error) => error);
  return h("article", {},
    h("p", { class: "over" }, "User"),
    h("h1", {}, titleOf({ item: about.user })),
    h("div", { class: "two" },
      h("section", {}, h("h2", {}, "Recommended"),
        list.items ? [list.excluded_seen ? null : h("p", { class: "note" }, "What this user has seen is not known: it may be among these."), recommended(source, list, who)] : failure(list)),
      h("section", {},
        h("h2", {}, about.n_seen === null ? "What was seen is not known" : `Has seen ${count(about.n_seen)} items`),
        h("ul", { class: "plain scroll", tabindex: about.seen.length > 12 ? "0" : null, role: "list", "aria-label": "Seen items" }, about.seen.map((ref) => h("li", {}, itemLink(ref)))),
        about.blocks.length > 0 && h("details", {}, h("summary", {}, "Groups of this user"),
          h("ul", { class: "plain" }, about.blocks.map((block) => h("li", {},
            h("a", { href: place(`stencil/${block.stencil}`, { row: block.label }) }, `stencil ${block.stencil}`), ": ", usersCalled(block))))))));
}

/** Choose a user by id. */
export async function users({ source }) {
  const input = h("input", { type: "text", id: "user-id", autocomplete: "off", required: true });
  const form = h("form", { class: "ask" }, h("label", { for: "user-id" }, "Id of a user"), input, h("button", { type: "submit" }, "Show"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.hash = place(`user/${encodeURIComponent(input.value.trim())}`);
  });
  return h("div", {}, h("h1", {}, "Users"), h("p", {}, `${count(source.info.users)} users are in this model.`), form);
}

/** The tree of items, level by level. */
export async function tree({ source }) {
  const { root } = await source.hierarchy({ side: "items", depth: 4, branches: 3, members: 8 });
  const branch = (node, depth) => {
    const text = [h("span", { class: "amount" }, count(node.size)), " ", named(node.members.slice(0, 4))];
    const members = h("p", { class: "members" }, node.members.map((ref, p) => [p ? " · " : "", itemLink(ref)]));
    if (!node.children.length) return h("li", {}, h("details", {}, h("summary", {}, text), members));
    return h("li", {}, h("details", { open: depth < 2 }, h("summary", {}, text), members, h("ul", { class: "tree" }, node.children.map((child) => branch(child, depth + 1)))));
  };
  return h("div", {}, h("h1", {}, "The tree of items"),
    h("p", {}, "Each level splits items by their groups in one stencil; the numbers say how many items there are."),
    h("ul", { class: "tree" }, branch(root, 0)));
}

/** The same person before two models. */
export async function compare({ sources, source }, _, given) {
  const pick = (name, other) => sources.find((one) => one.info.model === name) ?? other;
  const both = [pick(given.a, source), pick(given.b, sources.find((one) => one !== source) ?? source)];
  const go = (changes) => { location.hash = place("compare", { a: both[0].info.model, b: both[1].info.model, user: given.user, r: given.r, ...changes }); };
  const choice = (key, p) => h("select", { "aria-label": p ? "Second model" : "First model", onchange: (event) => go({ [key]: event.target.value }) },
    sources.map((one) => h("option", { value: one.info.model, selected: one === both[p] }, one.info.model)));
  const input = h("input", { type: "text", id: "compare-user", value: given.user ?? "", autocomplete: "off" });
  const form = h("form", { class: "ask" }, h("label", { for: "compare-user" }, "Id of a user"), input, h("button", { type: "submit" }, "Compare"));
  form.addEventListener("submit", (event) => { event.preventDefault(); go({ user: input.value.trim(), r: null }); });
  const rated = fromText(given.r);
  const who = given.user ? { user: given.user } : rated.size ? { rated: Object.fromEntries(rated) } : null;
  const lists = who ? await Promise.all(both.map((one) => one.recommend({ ...who, n: 15 }).catch((error) => error))) : [];
  const ranks = lists.map((list) => new Map((list.items ?? []).map((line) => [line.item, line.rank])));
  const changes = (p) => new Map([...ranks[p]].map(([id, rank]) => [id, change(rank, ranks[1 - p].get(id))]));
  return h("div", {}, h("h1", {}, "Side by side"), form,
    who === null && h("p", { class: "note" }, "Name a user, or ", h("a", { href: place("rate") }, "rate a few items"), " and compare from there."),
    h("div", { class: "two" }, both.map((one, p) => h("section", {}, h("h2", {}, choice(p ? "b" : "a", p)),
      lists[p]?.by && h("p", { class: "note" }, lists[p].by === "choice" ? "ranked by what such people choose" : "ranked by predicted value"),
      lists[p] && (lists[p].items ? recommended(one, lists[p], who, changes(p)) : failure(lists[p]))))));
}

function change(rank, other) {
  if (other === undefined) return { kind: "new", text: "only here" };
  if (other === rank) return null;
  return { kind: other > rank ? "up" : "down", text: `${other > rank ? "▲" : "▼"} ${Math.abs(other - rank)}` };
}
