// Read model files (docs/internals/files.md) into plain objects and typed arrays.

import { LABELS, NUMBERS, STENCILS, ModelFileError, floats, need, readContainer } from "./container.js";
import { decodeInts, decodeLabels, decodeNumbers, runningSums, unpackLabels } from "./coding.js";
import { readScale } from "./scale.js";
import { checkParts, KNOWN } from "./schema.js";
import { fromFormat1 } from "./formats.js";

export { ModelFileError };

const FORMAT = 2;
const LARGEST = 1e32; // of the numbers of a model
const MOST_EXPONENT = 200;
const MOST_CLASSES = 64;
const MOST_WEIGHTS = 257;
const NOBODY = -512;
const MOST_LEVEL = 512;
const MOST_USERS = 2 ** 48;

/** Read a model file, given as an ArrayBuffer or as bytes; throw a ModelFileError with one sentence if it cannot be. */
export function readModel(file) {
  const data = file instanceof Uint8Array ? file : new Uint8Array(file);
  try {
    const { header, tensors } = readContainer(data, "model", FORMAT);
    const divided = header.format === 1 ? fromFormat1(header, tensors) : divide(header.parts, tensors);
    const parts = readable(divided.parts);
    checkParts(parts);
    return unpack(parts, divided.tensors, checkedShape(header.shape, tensors));
  } catch (error) {
    if (error instanceof ModelFileError) throw error;
    throw new ModelFileError(String(error.message).slice(0, 200));
  }
}

/** Return the tensors of each part under their own names. */
function divide(parts, tensors) {
  const of = Object.fromEntries(Object.keys(parts).map((name) => [name, new Map()]));
  for (const [name, tensor] of tensors) {
    const slash = name.indexOf("/");
    const part = slash < 0 ? name : name.slice(0, slash);
    need(Object.hasOwn(of, part), `tensor '${name.slice(0, 40)}' belongs to no part`);
    of[part].set(slash < 0 ? "" : name.slice(slash + 1), tensor);
  }
  return { parts, tensors: of };
}

/** Return the parts that can be read; throw where the model cannot do without one that cannot. */
function readable(parts) {
  if ("posterior" in parts) {
    throw new ModelFileError("a page reads models of a single sum: compress this one first", true);
  }
  const kept = {};
  for (const [name, fields] of Object.entries(parts)) {
    const version = fields.version ?? 1;
    const isKnown = KNOWN.has(name) && Number.isInteger(version) && version <= 1;
    need(isKnown || fields.optional === true, `it has a part '${name.slice(0, 40)}' that this page does not know`);
    if (isKnown) kept[name] = fields;
  }
  return kept;
}

function stored(tensors) {
  let total = 0;
  for (const { bytes } of tensors.values()) total += bytes.length;
  return total;
}

function checkedShape(shape, tensors) {
  const sized = Array.isArray(shape) && shape.length === 2 && shape.every((x) => Number.isSafeInteger(x) && x >= 0);
  need(sized, "its sizes are wrong");
  NUMBERS.check(shape[0] + shape[1], stored(tensors));
  return shape;
}

function tensor(tensors, name) {
  need(tensors.has(name), `it lacks the tensor '${name}'`);
  return tensors.get(name);
}

function checkNumbers(x) {
  for (const each of x) need(Math.abs(each) <= LARGEST, "its numbers are out of range");
  return x;
}

function unpack(parts, of, shape) {
  const none = new Map();
  const values = readValues(parts.values ?? {});
  const model = { shape, stencils: readSum(parts.stencils, of.stencils, shape), ...values };
  model.ids = readIds(parts.ids ?? { row: "positions", col: "positions" }, of.ids ?? none, shape);
  model.itemMap = parts.item_map ? readItemMap(parts.item_map, of.item_map, shape[1]) : null;
  const consistent = model.predicts || (model.itemMap && !model.stencils.templates.length);
  need(consistent, "it says that it predicts no values");
  model.scale = parts.scale ? readScale(parts.scale) : null;
  model.spread = parts.spread ? readSpread(parts.spread, of.spread, shape) : null;
  model.activity = parts.activity ? readActivity(of.activity, shape) : null;
  model.interactions = parts.interactions ? readInteractions(parts.interactions.sizes, of.interactions, shape) : null;
  model.evaluation = parts.evaluation?.result ?? null;
  model.fit = parts.fit ?? null;
  return model;
}

function readValues(fields) {
  const range = fields.range ?? null;
  const clip = fields.clip === true ? range : fields.clip ?? null;
  need(fields.clip !== true || range, "the range of values is missing");
  for (const pair of [range, clip]) need(!pair || pair[0] <= pair[1], "the range of values is empty");
  const { sigma = null, zero_weight: zeroWeight = null, predicts = true } = fields;
  return { range, clip, sigma, zeroWeight, predicts };
}

// -- stencil sums -----------------------------------------------------------------------------------------

/** Read a stencil sum; `groups` are positions whose labels have frequencies of their own. */
function readSum(fields, tensors, shape, groups = null) {
  const n = fields.stencils;
  const size = stored(tensors);
  STENCILS.check(n, size);
  const sizes = tensor(tensors, "sizes");
  const k = fields.alike
    ? Array.from(decodeNumbers(sizes, 2)).flatMap((x) => Array(n).fill(x))
    : Array.from(decodeNumbers(sizes, 2 * n));
  const most = k.reduce((a, b) => Math.max(a, b), 1);
  need(k.every((x) => x >= 1) && most <= 2 ** 31, "its sizes are wrong");
  NUMBERS.check(shape[0] + shape[1], size);
  LABELS.check(n * Math.max(shape[0] + shape[1], most), size);
  const templates = readTemplates(tensors, k.slice(0, n), k.slice(n));
  need((fields.coded ?? tensors.has("models")) === tensors.has("models"), "how its labels are coded is not clear");
  const labels = readLabels(tensors, shape, n, k, groups);
  const [unseenRows, unseenCols] = readUnseen(fields.unseen ?? [0, 0], tensors, shape);
  const [rowEffects, colEffects] = ["row_effects", "col_effects"].map((name, axis) => {
    if (!tensors.has(name)) return null;
    const effects = checkNumbers(floats(tensors.get(name)));
    need(effects.length === shape[axis], "its effects do not fit its shape");
    return effects;
  });
  const { offset } = fields;
  const [rowLabels, colLabels] = [labels.slice(0, n), labels.slice(n)];
  return { shape, offset, templates, rowLabels, colLabels, unseenRows, unseenCols, rowEffects, colEffects };
}

/** Read the labels of rows of all stencils, then of columns. */
function readLabels(tensors, shape, n, k, groups) {
  const coded = tensor(tensors, "labels");
  need(coded.dtype === "U8" && coded.shape.length === 1, "its labels are of a wrong type");
  const lengths = k.map((_, p) => shape[p < n ? 0 : 1]);
  if (!tensors.has("models")) return unpackAll(coded.bytes, lengths, k);
  if (!groups) return decodeLabels(coded, tensors.get("models"), lengths, k);
  const each = k.flatMap((x) => groups.map(() => x));
  const parts = decodeLabels(coded, tensors.get("models"), k.flatMap(() => groups.map((group) => group.length)), each);
  return k.map((_, p) => {
    const out = new parts[p * groups.length].constructor(lengths[p]);
    groups.forEach((group, g) => group.forEach((place, q) => (out[place] = parts[p * groups.length + g][q])));
    return out;
  });
}

function unpackAll(bytes, lengths, k) {
  const widths = k.map((x) => 32 - Math.clz32(x - 1));
  let at = 0;
  const ends = widths.map((width, p) => (at += Math.ceil((width * lengths[p]) / 8)));
  need(at === bytes.length, "its labels are cut short");
  return ends.map((end, p) => unpackLabels(bytes.subarray(p ? ends[p - 1] : 0, end), lengths[p], widths[p], k[p]));
}

/** Return one {rows, cols, entries} for each stencil. */
function readTemplates(tensors, kRows, kCols) {
  const steps = tensors.has("steps") ? floats(tensors.get("steps")) : new Float32Array(kRows.length);
  need(steps.length === kRows.length && steps.every((x) => x >= 0 && x < Infinity), "its steps cannot be");
  const sizes = kRows.map((rows, s) => rows * kCols[s]);
  const total = (whole) => sizes.reduce((sum, size, s) => sum + (steps[s] > 0 === whole ? size : 0), 0);
  const given = tensors.has("mantissas")
    ? fromGrids(tensors, sizes.filter((_, s) => steps[s] === 0))
    : tensors.has("templates") ? floats(tensors.get("templates")) : new Float32Array(0);
  need(given.length === total(false), "its templates are cut short");
  const whole = total(true) ? decodeNumbers(tensor(tensors, "whole"), total(true)) : new Float64Array(0);
  const at = [0, 0];
  return sizes.map((size, s) => {
    const [from, lo] = steps[s] > 0 ? [whole, at[1]] : [given, at[0]];
    at[steps[s] > 0 ? 1 : 0] += size;
    const scale = steps[s] > 0 ? steps[s] : 1;
    const entries = Float32Array.from(from.subarray(lo, lo + size), (x) => x * scale);
    return { rows: kRows[s], cols: kCols[s], entries: checkNumbers(entries) };
  });
}

/** Read numbers that are integers times one power of two for each stencil. */
function fromGrids(tensors, sizes) {
  const count = sizes.reduce((sum, x) => sum + x, 0);
  const mantissas = decodeNumbers(tensor(tensors, "mantissas"), count);
  let exponent = 0;
  const exponents = decodeNumbers(tensor(tensors, "exponents"), sizes.length).map((step) => (exponent += step));
  need(exponents.every((x) => Math.abs(x) <= MOST_EXPONENT), "its template entries are out of range");
  const out = new Float32Array(count);
  let at = 0;
  sizes.forEach((size, s) => {
    const scale = 2 ** exponents[s];
    for (const end = at + size; at < end; at++) out[at] = mantissas[at] * scale;
  });
  return out;
}

function readUnseen(sizes, tensors, shape) {
  need(sizes.every((x, axis) => x <= shape[axis]), "it has more rows or columns without data than it has in all");
  const all = sizes[0] + sizes[1] ? decodeNumbers(tensor(tensors, "unseen"), sizes[0] + sizes[1]) : new Float64Array(0);
  return [all.subarray(0, sizes[0]), all.subarray(sizes[0])].map((steps, axis) => {
    const places = runningSums(steps);
    const inside = places instanceof Float64Array && places.every((x) => x >= 0 && x < shape[axis]);
    need(inside, "rows or columns without data are out of range");
    return places;
  });
}

// -- other parts ------------------------------------------------------------------------------------------

/** Return ids of rows and columns: null (positions), an array, or "json" for those that are in ids.json. */
function readIds(kinds, tensors, shape) {
  const [row, col] = ["row", "col"].map((side, axis) => {
    if (kinds[side] === "positions") return null;
    const coded = tensor(tensors, side);
    if (kinds[side] === "json") return "json";
    const sums = runningSums(decodeInts(coded, shape[axis]));
    const ids = Array.from(sums, (x) => (Number.isSafeInteger(Number(x)) ? Number(x) : String(x)));
    need(new Set(ids).size === ids.length, "some of its ids are there twice");
    return ids;
  });
  return { row, col };
}

function readSpread({ shape: sizes }, tensors, shape) {
  const variances = floats(tensor(tensors, "variances"));
  const sized = sizes.every((k) => k <= MOST_CLASSES) && variances.length === sizes[0] * sizes[1];
  need(sized, "the spread has no such table");
  need(variances.every((x) => x > 0 && x < Infinity), "the spread has variances that are not positive");
  const [rowClasses, colClasses] = decodeLabels(tensor(tensors, "classes"), tensor(tensors, "models"), shape, sizes);
  return { sizes, variances, rowClasses, colClasses };
}

function readActivity(tensors, shape) {
  const levels = decodeNumbers(tensor(tensors, "levels"), shape[0] + shape[1]);
  need(levels.every((x) => x >= 0 && x < 128), "the activity of rows and columns cannot be");
  const activity = levels.map((x) => 2 ** (x / 2));
  return { rows: activity.subarray(0, shape[0]), cols: activity.subarray(shape[0]) };
}

/** Return the columns of each row, those of row i from starts[i] to starts[i + 1], and their weights or null. */
function readInteractions(sizes, tensors, shape) {
  const pieces = Array.isArray(sizes) ? sizes : [[shape[0], sizes]];
  const wrong = "the interactions do not fit the shape";
  const coded = [...tensors.keys()].filter((name) => /^[0-9]+$/.test(name));
  need(pieces.reduce((sum, [rows]) => sum + rows, 0) === shape[0] && coded.length === pieces.length, wrong);
  const cells = pieces.reduce((sum, [, each]) => sum + each, 0);
  NUMBERS.check(cells, stored(tensors));
  const starts = new Float64Array(shape[0] + 1);
  const columns = new Uint32Array(cells);
  let [row, at] = [0, 0];
  pieces.forEach(([rows, some], p) => {
    const numbers = decodeNumbers(tensor(tensors, String(p)), rows + some);
    let step = rows;
    for (let i = 0; i < rows; i++) {
      need(numbers[i] >= 0 && step + numbers[i] <= rows + some, wrong);
      let column = -1;
      for (let q = 0; q < numbers[i]; q++) {
        column += numbers[step];
        need(numbers[step++] >= 1 && column < shape[1], wrong);
        columns[at++] = column;
      }
      starts[++row] = at;
    }
    need(step === rows + some, wrong);
  });
  return { starts, columns, weights: tensors.has("weights") ? readWeights(tensors, pieces) : null };
}

function readWeights(tensors, pieces) {
  const table = floats(tensors.get("weights"));
  const right = table.length >= 1 && table.length <= MOST_WEIGHTS && table.every((x) => x >= 0 && x < Infinity);
  need(right, "the weights of interactions cannot be");
  const k = pieces.map(() => table.length);
  const coded = [tensor(tensors, "levels"), tensor(tensors, "level_models")];
  const levels = decodeLabels(...coded, pieces.map(([, cells]) => cells), k);
  const out = new Float32Array(levels.reduce((sum, x) => sum + x.length, 0));
  let at = 0;
  for (const piece of levels) for (const level of piece) out[at++] = table[level];
  return out;
}

/** Return which items go with which: a stencil sum, or the whole map. */
function readItemMap(fields, tensors, size) {
  const levels = decodeNumbers(tensor(tensors, "levels"), size);
  need(levels.every((x) => x >= NOBODY && x <= MOST_LEVEL), "it cannot be how often items were chosen");
  const inner = new Map();
  for (const [name, x] of tensors) if (name.startsWith("sum.")) inner.set(name.slice(4), x);
  const stencils = fields.sum ? readSum(fields.sum, inner, [size, size], groupsOf(levels)) : null;
  if (stencils) {
    const { offset, rowEffects, colEffects, unseenRows, unseenCols } = stencils;
    const plain = !offset && !rowEffects && !colEffects && !unseenRows.length && !unseenCols.length;
    need(plain, "its map is no plain sum of stencils");
  }
  const whole = tensors.get("dense");
  need(!whole === !!stencils, "it has no item map, or two");
  need(!whole || (whole.dtype === "F32" && whole.count === size * size), "its map has a wrong shape or type");
  const dense = whole ? floats(whole) : null;
  need(!dense || dense.every(Number.isFinite), "its map has entries that are not finite");
  const [kind, likedFrom, seenWeight, unit] = fields.feedback;
  need(fields.penalty > 0 && fields.users <= MOST_USERS, "its map was not learned from such numbers");
  need(seenWeight >= 0 && unit > 0, "its feedback is of an unknown kind");
  const feedback = { kind, likedFrom, seenWeight, unit };
  return { stencils, dense, levels, penalty: fields.penalty, users: fields.users, feedback };
}

/** Return items in groups of about equal size, the least popular first, each in ascending order. */
function groupsOf(levels) {
  const number = Math.min(Math.max(Math.floor(levels.length / 250), 1), 8);
  const order = Uint32Array.from(levels.keys()).sort((a, b) => levels[a] - levels[b] || a - b);
  const [small, left] = [Math.floor(order.length / number), order.length % number];
  return Array.from({ length: number }, (_, g) => {
    const begin = g * small + Math.min(g, left);
    return order.slice(begin, begin + small + (g < left ? 1 : 0)).sort();
  });
}
