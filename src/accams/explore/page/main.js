// The page: a header, and the view that the address names.

import { h } from "./dom.js";
import { LocalSource } from "./local.js";
import { map } from "./mapview.js";
import { current, failure, place } from "./parts.js";
import { rate } from "./rate.js";
import { RemoteSource, keepToken } from "./remote.js";
import { searchBox } from "./searchbox.js";
import { stencil, stencils } from "./stencilview.js";
import { compare, home, item, tree, user, users } from "./views.js";

const VIEWS = { "": home, item, user, users, rate, stencils, stencil, map, tree, compare };
const NAMES = { "": "Overview", rate: "Rate", map: "Map", stencils: "Stencils", tree: "Tree", users: "Users", compare: "Compare" };
const main = document.getElementById("main");
const state = { sources: [], source: null, turn: 0 };

/** Return the sources of the page: models of a service, or the one that lies beside it. */
async function opened() {
  const site = await (await fetch("site.json")).json();
  if (site.service) return RemoteSource.all();
  const source = await LocalSource.open(import.meta.url);
  source.info = await source.model();
  return [source];
}

/** Ask for the token of the service. */
function askToken(again) {
  return new Promise((done) => {
    const input = h("input", { type: "password", id: "token", autocomplete: "off", required: true });
    const form = h("form", { class: "ask" }, h("label", { for: "token" }, "Token of this service"), input, h("button", { type: "submit" }, "Enter"));
    form.addEventListener("submit", (event) => { event.preventDefault(); keepToken(input.value.trim()); done(); });
    main.replaceChildren(...(again ? [failure({ detail: "this token is not right" })] : []), form);
    input.focus();
  });
}

async function start() {
  for (let again = false; ; again = true) {
    try {
      state.sources = await opened();
      break;
    } catch (error) {
      if (error.status !== 401) return main.replaceChildren(failure(error));
      await askToken(again);
    }
  }
  state.source = state.sources[0];
  header();
  addEventListener("hashchange", show);
  await show();
}

function header() {
  const choice = h("select", { "aria-label": "Model", onchange: (event) => { location.hash = place(current().path, {}, event.target.value); } },
    state.sources.map((one) => h("option", { value: one.info.model }, one.info.model)));
  const theme = h("button", { type: "button", class: "quiet", "aria-label": "switch between light and dark", onclick: () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    localStorage.setItem("accams-theme", root.dataset.theme);
  } }, "◐");
  const box = searchBox(() => state.source, (ref) => { location.hash = place(`item/${encodeURIComponent(ref.item)}`); });
  document.getElementById("header").replaceChildren(
    h("div", { class: "top" }, h("a", { class: "brand", href: place("") }, "accams"), state.sources.length > 1 ? choice : h("span", { class: "model" }, h("bdi", {}, state.source.info.model)), box, theme),
    h("nav", { "aria-label": "Views" }));
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName)) return;
    event.preventDefault();
    box.querySelector("input").focus();
  });
}

function isOffered(name) {
  const { info } = state.source;
  if (name === "users") return info.users > 0 && info.named_users !== false;
  if (name === "stencils") return info.predicts;
  return name !== "compare" || state.sources.length > 1;
}

/** Show the view of the address; an older one that is still being made is left. */
async function show() {
  const { path, m, ...given } = current();
  state.source = state.sources.find((one) => one.info.model === m) ?? state.sources[0];
  const [name, ...rest] = path.split("/");
  const turn = (state.turn += 1);
  const isShown = (view) => view === name || (view === "stencils" && name === "stencil") || (view === "users" && name === "user");
  document.querySelector("nav").replaceChildren(...Object.entries(NAMES).filter(([view]) => isOffered(view)).map(([view, text]) =>
    h("a", { href: place(view), "aria-current": isShown(view) && "page" }, text)));
  const select = document.querySelector("header select");
  if (select) select.value = state.source.info.model;
  main.setAttribute("aria-busy", "true");
  let made;
  try {
    if (!Object.hasOwn(VIEWS, name)) throw new Error(`there is no view ${name}`);
    made = await VIEWS[name](state, decodeURIComponent(rest.join("/")), given);
  } catch (error) {
    made = h("div", {}, h("h1", {}, "This cannot be shown"), failure(error));
  }
  if (turn !== state.turn) return;
  main.replaceChildren(made);
  main.setAttribute("aria-busy", "false");
  const heading = made.querySelector("h1")?.textContent.slice(0, 80) ?? "";
  document.title = `${heading} · accams`;
  if (turn > 1) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
}

start();
