// Stencils: a template as a heat map, and the groups of users and items that it joins.

import { count, h, number, s, signed } from "./dom.js";
import { itemLink, itemsCalled, place, usersCalled } from "./parts.js";

const CELL = 22; // units of the picture

/** All stencils, those that matter most first. */
export async function stencils({ source }) {
  const { stencils: all } = await source.stencils();
  if (!all.length) return h("div", {}, h("h1", {}, "Stencils"), h("p", { class: "note" }, "This model has none."));
  const most = Math.max(...all.map((one) => one.contribution)) || 1;
  const order = [...all].sort((a, b) => b.contribution - a.contribution);
  return h("div", {}, h("h1", {}, "Stencils"),
    h("p", {}, "Every prediction is the average plus one number from each of these tables. The bars say how much each adds or takes away, on average."),
    h("ol", { class: "list" }, order.map((one) => h("li", { class: "line" },
      h("span", { class: "what" }, h("a", { href: place(`stencil/${one.stencil}`) }, `stencil ${one.stencil}`), ` ${one.rows} × ${one.cols}`),
      s("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" },
        s("rect", { class: "level", x: 0, y: 3, width: (100 * one.contribution) / most, height: 4 })),
      h("span", { class: "score" }, number(one.contribution, 3))))));
}

/** Order lines of a table along their main direction, so that like ones are neighbours. */
function ordered(lines) {
  const mean = lines[0].map((_, c) => lines.reduce((sum, line) => sum + line[c], 0) / lines.length);
  const apart = lines.map((line) => line.map((x, c) => x - mean[c]));
  let axis = mean.map((_, c) => apart.reduce((sum, line) => sum + line[c] * line[c], 1e-9));
  for (let round = 0; round < 60; round += 1) {
    const along = apart.map((line) => line.reduce((sum, x, c) => sum + x * axis[c], 0));
    axis = axis.map((_, c) => apart.reduce((sum, line, a) => sum + line[c] * along[a], 0));
    const length = Math.hypot(...axis) || 1;
    axis = axis.map((x) => x / length);
  }
  const places = apart.map((line) => line.reduce((sum, x, c) => sum + x * axis[c], 0));
  return [...lines.keys()].sort((a, b) => places[a] - places[b] || a - b);
}

/** One stencil: the picture, the chosen block, and the groups. */
export async function stencil({ source }, number_, given) {
  const about = await source.stencil(number_);
  const { template } = about;
  const rows = ordered(template);
  const cols = ordered(template[0].map((_, c) => template.map((line) => line[c])));
  const largest = Math.max(...template.flat().map(Math.abs)) || 1;
  const [width, height] = [cols.length * CELL, rows.length * CELL];
  const chosen = { row: rows.indexOf(Number(given.row ?? -1)), col: cols.indexOf(Number(given.col ?? -1)) };
  const weigh = (a, c) => Math.abs(template[a][c]) * Math.sqrt(about.rows[a].size * about.cols[c].size);
  const heaviest = (over, value) => over.reduce((best, _, p) => (value(p) > value(best) ? p : best), 0);
  const bestCol = (y) => heaviest(cols, (x) => weigh(rows[y], cols[x]));
  if (chosen.row < 0) chosen.row = heaviest(rows, (y) => weigh(rows[y], cols[chosen.col < 0 ? bestCol(y) : chosen.col]));
  if (chosen.col < 0) chosen.col = bestCol(chosen.row);
  const cells = rows.flatMap((a, y) => cols.map((c, x) => s("rect", {
    class: template[a][c] < 0 ? "minus" : "plus", x: x * CELL, y: y * CELL, width: CELL - 1, height: CELL - 1,
    "fill-opacity": (Math.abs(template[a][c]) / largest).toFixed(3), "data-row": y, "data-col": x,
  }, s("title", {}, signed(template[a][c])))));
  const mark = s("rect", { class: "mark", width: CELL - 1, height: CELL - 1 });
  const picture = s("svg", { class: "heat", viewBox: `-2 -2 ${width + 3} ${height + 3}`, preserveAspectRatio: "xMinYMin meet", tabindex: "0", role: "application",
    "aria-label": `Template of stencil ${about.stencil}: ${rows.length} groups of users by ${cols.length} groups of items. Arrow keys choose a block.` }, cells, mark);
  picture.style.setProperty("max-width", `${Math.min(40 * cols.length, 900)}px`);
  const told = h("div", { class: "told", "aria-live": "polite" });

  function choose(row, col, remember = true) {
    chosen.row = Math.min(Math.max(row, 0), rows.length - 1);
    chosen.col = Math.min(Math.max(col, 0), cols.length - 1);
    const [a, c] = [rows[chosen.row], cols[chosen.col]];
    mark.setAttribute("x", chosen.col * CELL);
    mark.setAttribute("y", chosen.row * CELL);
    const value = template[a][c];
    told.replaceChildren(
      h("p", { class: "big" }, h("span", { class: `amount ${value < 0 ? "minus" : "plus"}` }, signed(value))),
      h("p", {}, usersCalled(about.rows[a])),
      h("p", {}, "on ", itemsCalled(about.cols[c], 5)));
    if (remember) history.replaceState(null, "", place(`stencil/${about.stencil}`, { row: a, col: c }));
  }

  picture.addEventListener("click", (event) => {
    const { row, col } = event.target.dataset;
    if (row !== undefined) choose(Number(row), Number(col));
  });
  picture.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    choose(chosen.row + move[0], chosen.col + move[1]);
  });
  choose(chosen.row, chosen.col, false);
  const sorted = (blocks) => [...blocks].filter((block) => block.size).sort((a, b) => b.size - a.size);
  return h("article", {},
    h("p", { class: "over" }, h("a", { href: place("stencils") }, "Stencils")),
    h("h1", {}, `Stencil ${about.stencil}`),
    h("p", {}, "Rows are groups of users, columns are groups of items. Each block adds its number to the predictions of its users for its items; on average it is ", h("strong", {}, `±${number(about.contribution, 3)}`), "."),
    h("div", { class: "heatbox" }, picture, told),
    h("p", { class: "legend" }, h("span", { class: "swatch minus" }), " takes away ", h("span", { class: "swatch plus" }), " adds"),
    h("div", { class: "two" },
      h("section", {}, h("h2", {}, "Groups of users"), h("ul", { class: "plain" }, sorted(about.rows).map((block) => h("li", {}, usersCalled(block))))),
      h("section", {}, h("h2", {}, "Groups of items"), h("ul", { class: "plain" }, sorted(about.cols).map((block) => h("li", {},
        h("span", { class: "amount" }, count(block.size)), " ", block.members.map((ref, p) => [p ? ", " : "", itemLink(ref)])))))));
}
