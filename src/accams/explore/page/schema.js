// Fields of the parts of a model file: which there are, and of which kind.

import { need } from "./container.js";

const LARGEST = 1e32;
const MOST = 1e100;
const finite = (x) => typeof x === "number" && Math.abs(x) <= LARGEST;
const scale = (x) => typeof x === "number" && x >= 0 && x <= MOST;
const flag = (x) => typeof x === "boolean";
const text = (x) => typeof x === "string" && x.length <= 10_000;
const mapping = (x) => typeof x === "object" && x !== null && !Array.isArray(x);
const integer = (low) => (x) => Number.isSafeInteger(x) && x >= low;
const either = (...kinds) => (x) => kinds.some((kind) => kind(x));
const is = (...values) => (x) => values.includes(x);
const listOf = (kind, length = null) => (x) =>
  Array.isArray(x) && (length === null || x.length === length) && x.every(kind);
const numbers = (x) => listOf(finite)(x) && x.length <= 255;
const feedback = is("likes", "ratings", "counts", "weights");
const maybe = (kind) => ({ kind, optional: true });

const SUM = {
  offset: finite, stencils: integer(0), coded: maybe(flag), alike: maybe(flag), unseen: maybe(listOf(integer(0), 2)),
};
const SCHEMAS = {
  stencils: SUM,
  ids: { row: is("positions", "integers", "json"), col: is("positions", "integers", "json") },
  values: {
    range: maybe(either(is(null), listOf(finite, 2))), clip: maybe(either(is(null, true), listOf(finite, 2))),
    sigma: maybe(either(is(null), scale)), zero_weight: maybe(either(is(null), scale)), predicts: maybe(flag),
  },
  scale: {
    values: numbers, cuts: numbers, latents: numbers, mean_cuts: numbers, spread: scale, mean_spread: scale,
  },
  item_map: {
    penalty: scale, dropout: maybe((x) => scale(x) && x < 1), users: integer(0), sum: either(is(null), mapping),
    feedback: (x) => listOf(either(feedback, finite), 4)(x) && feedback(x[0]) && x.slice(1).every(finite),
  },
  spread: { shape: listOf(integer(1), 2) },
  activity: {},
  interactions: { sizes: either(integer(0), listOf(listOf(integer(0), 2))) },
  history: {},
  evaluation: { result: mapping },
  fit: { estimator: text, parameters: mapping, training: mapping, names: maybe(either(is(null), listOf(text, 2))) },
};

export const KNOWN = new Set(Object.keys(SCHEMAS));

function check(part, fields, schema) {
  for (const [name, rule] of Object.entries(schema)) {
    const { kind, optional } = typeof rule === "function" ? { kind: rule, optional: false } : rule;
    if (Object.hasOwn(fields, name)) need(kind(fields[name]), `field '${name}' of part '${part}' cannot be`);
    else need(optional, `part '${part}' lacks the field '${name}'`);
  }
}

/** Throw unless all fields of these parts are of their kinds. */
export function checkParts(parts) {
  need(parts.stencils, "it lacks the part 'stencils'");
  for (const [name, schema] of Object.entries(SCHEMAS)) if (parts[name]) check(name, parts[name], schema);
  if (parts.item_map?.sum) check("item_map", parts.item_map.sum, SUM);
}
