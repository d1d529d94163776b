// Elements, made without any markup from data: text is always text, whatever it looks like.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((x) => x !== null && x !== undefined && x !== false));
  return element;
}

/** Return an element of HTML with attributes, listeners (`onclick`) and children. */
export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

/** Return an element of SVG. */
export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Show a number of the scale of the model's values. */
export const number = (x, digits = 2) => (Number.isFinite(x) ? x.toFixed(digits) : "–");

/** Show a number with its sign. */
export const signed = (x, digits = 2) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(digits)}`;

/** Show a count with separators of thousands. */
export const count = (n) => n.toLocaleString("en");

/** Return a function that runs `what` once calls have ceased for so many milliseconds. */
export function later(what, milliseconds) {
  let timer;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => what(...given), milliseconds);
  };
}
