"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const root = document.documentElement;

// Colours are named like "$accent" in the figures; the page's style says what they are.
function coloured(value, style) {
  if (typeof value === "string" && value.startsWith("$"))
    return style.getPropertyValue("--" + value.slice(1)).trim() || value;
  if (Array.isArray(value)) return value.map((each) => coloured(each, style));
  if (value && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, coloured(each, style)]));
  return value;
}

// Where there is little room, a figure may have other settings: `narrow` holds only what differs.
function merged(one, other) {
  if (other === undefined || one === null || typeof one !== "object" || typeof other !== "object") return other === undefined ? one : other;
  if (Array.isArray(one) && typeof one[0] !== "object") return other;
  const both = Array.isArray(one) ? [...one] : { ...one };
  for (const [key, each] of Object.entries(other)) both[key] = merged(both[key], each);
  return both;
}

const narrow = window.matchMedia("(max-width: 560px)");

function draw() {
  const style = getComputedStyle(root);
  for (const [id, figure] of Object.entries(figures)) {
    const { data, layout } = coloured(narrow.matches ? merged(figure, figure.narrow) : figure, style);
    document.getElementById(id).style.height = layout.height + "px";
    try {
      Plotly.react(id, data, layout, { displayModeBar: false, responsive: true });
    } catch (error) {
      console.error(id, error);
    }
  }
}

function setTheme(theme) {
  root.dataset.theme = theme;
  draw();
}

narrow.addEventListener("change", draw);
const dark = window.matchMedia("(prefers-color-scheme: dark)");
dark.addEventListener("change", (event) => setTheme(event.matches ? "dark" : "light"));
document.getElementById("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
draw();
