// The map: every item a point. 100,000 of them can be moved without a freeze.

import { count, h, later } from "./dom.js";
import { Dots, thinned } from "./dots.js";
import { itemLink, named, place } from "./parts.js";
import { ranked } from "./scoring.js";

const COLOURS = 6; // --group-0 ... in the style sheet
const GRID = 64; // cells by which points are found, along each side
const LABELS = 60; // titles that are tried
const NEAR = 14; // pixels
const FEW = 3000; // points in view that a canvas draws, of any size; more of them are smaller, and pixels
const MOVING = 20000; // points that are drawn while the map moves, and all of them once it rests
const REST = 150; // milliseconds
const MOST_INK = 1; // by how much all points together may be larger than the map

class Points {
  constructor(map) {
    this.size = map.items.length;
    this.x = Float32Array.from(map.x);
    this.y = Float32Array.from(map.y);
    this.group = Int8Array.from(map.group, (g) => (g < 0 ? -1 : g % COLOURS));
    this.order = ranked(map.weight, map.weight.keys());
    this.rank = new Int32Array(this.size);
    this.order.forEach((p, k) => { this.rank[p] = k; });
    const top = map.weight[this.order[0]] || 1;
    this.radius = Float32Array.from(map.weight, (w) => 1.2 + 3.3 * Math.sqrt(Math.max(0, w) / top));
    this.layers = Array.from({ length: COLOURS + 1 }, () => []); // in which they are drawn, the best known last
    for (let k = this.size - 1; k >= 0; k -= 1) this.layers[this.group[this.order[k]] + 1].push(this.order[k]);
    this.map = map;
    this.cells = Array.from({ length: GRID * GRID }, () => []);
    for (let p = 0; p < this.size; p += 1) this.cells[this.cell(this.x[p]) + GRID * this.cell(this.y[p])].push(p);
  }

  cell(x) {
    return Math.min(GRID - 1, Math.max(0, Math.floor(((x + 1) / 2) * GRID)));
  }

  ref(p) {
    return { item: this.map.items[p], title: this.map.titles?.[p] ?? null };
  }

  /** Return the point nearest to a place, within a distance, or -1. */
  nearest(x, y, within) {
    let [best, least] = [-1, within * within];
    for (let b = this.cell(y - within); b <= this.cell(y + within); b += 1) {
      for (let a = this.cell(x - within); a <= this.cell(x + within); a += 1) {
        for (const p of this.cells[a + GRID * b]) {
          const apart = (this.x[p] - x) ** 2 + (this.y[p] - y) ** 2;
          if (apart < least) [best, least] = [p, apart];
        }
      }
    }
    return best;
  }
}

export async function map({ source }, _, given) {
  const points = new Points(await source.map());
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": `Map of ${count(points.size)} items. Arrow keys move it, plus and minus zoom. The items in view are listed below.` });
  const tip = h("div", { class: "tip", hidden: true });
  const inView = h("ul", { class: "plain columns3", "aria-label": "Items in view" });
  const view = { x: 0, y: 0, scale: 1 };
  const pen = canvas.getContext("2d");
  const dots = new Dots();
  const [px, py] = [new Float32Array(points.size), new Float32Array(points.size)]; // of points in view
  let [wide, high, marked, waiting, moving] = [0, 0, -1, false, false];
  if (given.item !== undefined) {
    marked = points.map.items.findIndex((id) => String(id) === given.item);
    if (marked >= 0) Object.assign(view, { x: points.x[marked], y: points.y[marked], scale: 5 });
  }
  const unit = () => (Math.min(wide, high) / 2) * 0.94 * view.scale;
  const toScreen = (p) => [wide / 2 + (points.x[p] - view.x) * unit(), high / 2 - (points.y[p] - view.y) * unit()];
  const toMap = (px, py) => [view.x + (px - wide / 2) / unit(), view.y - (py - high / 2) / unit()];
  const isInside = ([px, py], pad = 0) => px > -pad && py > -pad && px < wide + pad && py < high + pad;

  /** Return the points in view by layers, and set where they are in pixels of the screen. */
  function shown(ratio) {
    const [right, bottom, k] = [canvas.width, canvas.height, unit() * ratio];
    const [x0, y0, pad] = [right / 2 - view.x * k, bottom / 2 + view.y * k, 5 * ratio];
    return points.layers.map((layer) => layer.filter((p) => {
      px[p] = x0 + points.x[p] * k;
      py[p] = y0 - points.y[p] * k;
      return px[p] > -pad && py[p] > -pad && px[p] < right + pad && py[p] < bottom + pad;
    }));
  }

  /** Draw a few points as circles. */
  function trace(layers, grown, colours) {
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    pen.globalAlpha = 0.75;
    layers.forEach((layer, g) => {
      pen.fillStyle = colours[g];
      for (const p of layer) {
        pen.beginPath();
        pen.arc(px[p], py[p], points.radius[p] * grown, 0, 7);
        pen.fill();
      }
    });
    pen.globalAlpha = 1;
  }

  /** Draw many points, in pixels of the screen. */
  function scatter(layers, grown, colours, paper) {
    let ink = 0;
    for (const layer of layers) for (const p of layer) ink += 4 * (points.radius[p] * grown) ** 2;
    const size = grown * Math.min(1, Math.sqrt((MOST_INK * canvas.width * canvas.height) / ink));
    dots.begin(pen, paper);
    (moving ? thinned(layers, points.rank, MOVING) : layers).forEach((layer, g) => dots.draw(pen, colours[g], layer, px, py, points.radius, size));
    dots.end(pen);
  }

  function draw() {
    waiting = false;
    if (!wide || !high) return;
    const style = getComputedStyle(canvas);
    const ratio = devicePixelRatio || 1;
    const colours = ["--faint", ...Array.from({ length: COLOURS }, (_, g) => `--group-${g}`)].map((name) => style.getPropertyValue(name).trim());
    const [ink, paper] = ["--ink", "--paper"].map((name) => style.getPropertyValue(name).trim());
    const grown = Math.min(3, Math.sqrt(view.scale));
    const layers = shown(ratio);
    const draws = layers.reduce((sum, layer) => sum + layer.length, 0) > FEW ? scatter : trace;
    draws(layers, grown * ratio, colours, paper);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    label(ink, paper);
    if (marked >= 0) {
      pen.strokeStyle = ink;
      pen.lineWidth = 2;
      pen.beginPath();
      pen.arc(...toScreen(marked), points.radius[marked] * grown + 4, 0, 7);
      pen.stroke();
    }
  }

  /** Write the titles of the best-known items in view, where there is room. */
  function label(ink, paper) {
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const taken = [];
    let tried = 0;
    const candidates = marked >= 0 ? [marked, ...points.order] : points.order;
    for (const p of candidates) {
      const [px, py] = toScreen(p);
      if (!isInside([px, py])) continue;
      if ((tried += 1) > LABELS) break;
      const text = shortened(String(points.ref(p).title ?? points.ref(p).item));
      const box = { x: px + 7, y: py - 8, w: pen.measureText(text).width + 4, h: 16 };
      if (box.x + box.w > wide || taken.some((t) => box.x < t.x + t.w && t.x < box.x + box.w && box.y < t.y + t.h && t.y < box.y + box.h)) continue;
      taken.push(box);
      pen.lineWidth = 3;
      pen.strokeStyle = paper;
      pen.strokeText(text, box.x, py);
      pen.fillStyle = ink;
      pen.fillText(text, box.x, py);
    }
  }

  const listed = later(() => {
    const found = [];
    for (const p of points.order) {
      if (isInside(toScreen(p))) found.push(p);
      if (found.length >= 24) break;
    }
    inView.replaceChildren(...found.map((p) => h("li", {}, itemLink(points.ref(p)))));
  }, 200);

  function redraw() {
    if (wide && !canvas.isConnected) return watching.forEach((each) => each.disconnect()); // another view is shown
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
    listed();
  }

  const rests = later(() => { moving = false; redraw(); }, REST);

  function moves() {
    moving = true;
    redraw();
    rests();
  }

  function zoom(factor, px = wide / 2, py = high / 2) {
    const [x, y] = toMap(px, py);
    view.scale = Math.min(200, Math.max(0.8, view.scale * factor));
    const [nx, ny] = toMap(px, py);
    Object.assign(view, { x: view.x + x - nx, y: view.y + y - ny });
    moves();
  }

  function pan(dx, dy) {
    Object.assign(view, { x: view.x - dx / unit(), y: view.y + dy / unit() });
    moves();
  }

  const watching = [new ResizeObserver(() => {
    [wide, high] = [canvas.clientWidth, canvas.clientHeight];
    [canvas.width, canvas.height] = [wide, high].map((n) => Math.round(n * (devicePixelRatio || 1)));
    redraw();
  }), new MutationObserver(redraw)];
  watching[0].observe(canvas);
  watching[1].observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });

  follow(canvas, { zoom, pan, point: (px, py, isClick) => {
    const p = points.nearest(...toMap(px, py), NEAR / unit());
    tip.hidden = p < 0;
    canvas.classList.toggle("over-point", p >= 0);
    if (p < 0) return;
    if (isClick) location.hash = place(`item/${encodeURIComponent(points.ref(p).item)}`);
    const [x, y] = toScreen(p);
    tip.textContent = points.ref(p).title ?? points.ref(p).item;
    tip.style.setProperty("left", `${Math.min(x, wide - 150)}px`);
    tip.style.setProperty("top", `${y}px`);
  } });
  canvas.addEventListener("keydown", (event) => {
    const step = 60;
    const steps = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (steps[event.key]) pan(...steps[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(1.4);
    else if (event.key === "-") zoom(1 / 1.4);
    else if (event.key === "0") { Object.assign(view, { x: 0, y: 0, scale: 1 }); redraw(); } else return;
    event.preventDefault();
  });
  const legend = points.map.groups.map((group, g) => h("li", {}, h("span", { class: `dot group-${g % COLOURS}` }), " ", named(group.members)));
  return h("div", {}, h("h1", {}, "The map of items"),
    h("p", {}, "Close together is what the same people like. Drag to move, scroll or pinch to zoom, click to open."),
    h("div", { class: "mapbox" }, canvas, tip,
      h("div", { class: "zoom" }, h("button", { type: "button", "aria-label": "zoom in", onclick: () => zoom(1.6) }, "+"), h("button", { type: "button", "aria-label": "zoom out", onclick: () => zoom(1 / 1.6) }, "−"))),
    legend.length > 0 && h("ul", { class: "plain legend" }, legend),
    h("h2", {}, "Best known in view"), inView);
}

/** Long titles are cut, whole characters at a time. */
const shortened = (text) => { const letters = Array.from(text.slice(0, 80)); return letters.length > 28 ? `${letters.slice(0, 27).join("")}…` : letters.join(""); };

/** Follow mouse, pen and fingers: one moves, two zoom. */
function follow(canvas, { zoom, pan, point }) {
  const down = new Map();
  let moved = 0;
  const local = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(Math.exp(-event.deltaY / 300), ...local(event)); }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); down.set(event.pointerId, local(event)); moved = 0; });
  canvas.addEventListener("pointermove", (event) => {
    const [was, now] = [down.get(event.pointerId), local(event)];
    if (!was) return point(...now, false);
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    if (other) zoom(Math.hypot(now[0] - other[0], now[1] - other[1]) / (Math.hypot(was[0] - other[0], was[1] - other[1]) || 1), ...other);
    else pan(now[0] - was[0], now[1] - was[1]);
    moved += Math.abs(now[0] - was[0]) + Math.abs(now[1] - was[1]);
    down.set(event.pointerId, now);
  });
  const up = (event) => { if (down.delete(event.pointerId) && moved < 5 && event.type === "pointerup") point(...local(event), true); };
  for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, up);
}
