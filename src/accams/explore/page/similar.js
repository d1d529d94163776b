// Similarity of rows or of columns, which is itself a stencil sum.

import { Codes, countLabels } from "./codes.js";

/** Return the lines of a template, less their means and the average line, and the shares of both sides' labels. */
export function centredLines(codes, s, side) {
  const [rows, cols, width] = [codes.heights[s] - 1, codes.widths[s] - 1, codes.widths[s]];
  const T = codes.templates[s];
  const entry = side === 0 ? (a, c) => T[a * width + c] : (a, c) => T[c * width + a];
  const shares = [[codes.rows[s], codes.shape[0], rows], [codes.cols[s], codes.shape[1], cols]].map((x) => {
    const counts = Float64Array.from(countLabels(...x), (count) => count + 1e-9);
    const total = counts.reduce((sum, count) => sum + count, 0);
    return counts.map((count) => count / total);
  });
  const [along, across] = side === 0 ? shares : [shares[1], shares[0]];
  const lines = Array.from(along, (_, a) => {
    const line = Float64Array.from(across, (_, c) => entry(a, c));
    const mean = line.reduce((sum, x, c) => sum + x * across[c], 0);
    return line.map((x) => x - mean);
  });
  const average = Float64Array.from(across, (_, c) => lines.reduce((sum, line, a) => sum + along[a] * line[c], 0));
  return { lines: lines.map((line) => line.map((x, c) => x - average[c])), along, across };
}

/** Return the stencil sum of the similarity of two rows (side 0) or columns (side 1), "weighted" or "hamming". */
export function likeness(codes, side, by) {
  const [labels, sizes] = side === 0 ? [codes.rows, codes.heights] : [codes.cols, codes.widths];
  const size = codes.shape[side];
  const make = by === "hamming" ? byLabels : byTemplates;
  const [tables, offset] = make(codes, side, sizes);
  return new Codes([size, size], offset, labels, labels, tables, sizes, sizes);
}

function byLabels(codes, side, sizes) {
  const tables = sizes.map((k) => {
    const table = new Float64Array(k * k);
    for (let a = 0; a < k - 1; a++) table[a * k + a] = 1 / sizes.length;
    return table;
  });
  return [tables, 0];
}

function byTemplates(codes, side, sizes) {
  let variance = 0;
  const tables = sizes.map((k, s) => {
    const { lines, along, across } = centredLines(codes, s, side);
    const scaled = lines.map((line) => line.map((x, c) => x * Math.sqrt(across[c])));
    scaled.push(new Float64Array(across.length)); // the average one
    const square = scaled.map((line) => line.reduce((sum, x) => sum + x * x, 0));
    const table = new Float64Array(k * k);
    for (let a = 0; a < k; a++) {
      for (let b = 0; b < k; b++) {
        let product = 0;
        for (let c = 0; c < across.length; c++) product += scaled[a][c] * scaled[b][c];
        table[a * k + b] = square[a] + square[b] - 2 * product;
        if (a < k - 1 && b < k - 1) variance += (along[a] * table[a * k + b] * along[b]) / 2;
      }
    }
    return table;
  });
  return [tables.map((table) => table.map((x) => (variance > 0 ? x / (-2 * variance) : 0))), 1];
}
