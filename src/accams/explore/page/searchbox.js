// The search box: titles and ids, with typing errors, by mouse and by keys.

import { h, later } from "./dom.js";
import { failure, titleOf } from "./parts.js";

let number = 0;

/** Return a search box that calls `chosen` with an item. */
export function searchBox(source, chosen, { label = "Search items", n = 8 } = {}) {
  const id = `search-${(number += 1)}`;
  const input = h("input", {
    type: "search", id, placeholder: label, autocomplete: "off", spellcheck: "false", role: "combobox",
    "aria-label": label, "aria-expanded": "false", "aria-controls": `${id}-list`, "aria-autocomplete": "list",
  });
  const list = h("ul", { id: `${id}-list`, role: "listbox", "aria-label": "Found items", hidden: true });
  const status = h("p", { class: "hidden", role: "status" });
  let [found, at, asked] = [[], -1, 0];

  function show(items) {
    [found, at] = [items, -1];
    list.replaceChildren(...items.map((ref, p) => h("li", { id: `${id}-${p}`, role: "option", "aria-selected": "false", onmousedown: (event) => {
      event.preventDefault();
      take(p);
    } }, titleOf(ref))));
    const open = items.length > 0;
    list.hidden = !open;
    input.setAttribute("aria-expanded", String(open));
    input.removeAttribute("aria-activedescendant");
  }

  function move(to) {
    if (!found.length) return;
    list.children[at]?.setAttribute("aria-selected", "false");
    at = (to + found.length) % found.length;
    list.children[at].setAttribute("aria-selected", "true");
    list.children[at].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", `${id}-${at}`);
  }

  function take(p) {
    const ref = found[p];
    asked += 1; // answers that are still to come are not wanted any more
    show([]);
    input.value = "";
    if (ref) chosen(ref);
  }

  const look = later(async () => {
    const q = input.value.trim();
    const turn = (asked += 1);
    if (!q) return show([]);
    try {
      const answer = await source().search({ q, n });
      if (turn !== asked) return; // an older question is answered late
      show(answer.items);
      status.textContent = answer.items.length ? `${answer.items.length} items found` : "nothing found";
      if (!answer.items.length) {
        list.replaceChildren(h("li", { class: "none", role: "option", "aria-disabled": "true" }, "nothing found"));
        list.hidden = false;
      }
    } catch (error) {
      if (turn !== asked) return;
      list.replaceChildren(h("li", { role: "option" }, failure(error)));
      list.hidden = false;
    }
  }, 60);

  input.addEventListener("input", look);
  input.addEventListener("keydown", (event) => {
    const moves = { ArrowDown: () => move(at + 1), ArrowUp: () => move(at - 1), Escape: () => show([]) };
    if (event.key === "Enter" && found.length) take(Math.max(at, 0));
    else if (moves[event.key]) moves[event.key]();
    else return;
    event.preventDefault();
  });
  input.addEventListener("blur", () => setTimeout(() => show([]), 150));
  return h("div", { class: "search", role: "search" }, input, list, status);
}
