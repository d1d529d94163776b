// A stencil sum laid out for prediction, with an average row and column added to each template.

/** Return the sum as NumPy computes it, to the last bit: in eight interleaved parts, and halves of long arrays. */
export function pairwiseSum(x, lo = 0, hi = x.length) {
  const n = hi - lo;
  if (n < 8) {
    let sum = n ? x[lo] : 0;
    for (let p = lo + 1; p < hi; p++) sum += x[p];
    return sum;
  }
  if (n > 128) {
    const middle = Math.floor(n / 2) - (Math.floor(n / 2) % 8);
    return pairwiseSum(x, lo, lo + middle) + pairwiseSum(x, lo + middle, hi);
  }
  const r = [x[lo], x[lo + 1], x[lo + 2], x[lo + 3], x[lo + 4], x[lo + 5], x[lo + 6], x[lo + 7]];
  let p = 8;
  for (; p < n - (n % 8); p += 8) for (let q = 0; q < 8; q++) r[q] += x[lo + p + q];
  let sum = r[0] + r[1] + (r[2] + r[3]) + (r[4] + r[5] + (r[6] + r[7]));
  for (; p < n; p++) sum += x[lo + p];
  return sum;
}

/** Round to the nearest integer, ties to the even one. */
export function rint(x) {
  const low = Math.floor(x);
  const above = x - low;
  return above < 0.5 || (above === 0.5 && low % 2 === 0) ? low : low + 1;
}

export function sharesOf(sizes) {
  const total = sizes.reduce((sum, x) => sum + x, 0);
  return Float64Array.from(sizes, (x) => (total ? x / total : 1 / sizes.length));
}

/** Return how many of the first `size` labels are each of 0 .. k - 1. */
export function countLabels(labels, size, k) {
  const counts = new Float64Array(k + 1);
  for (let i = 0; i < size; i++) counts[Math.min(labels[i], k)]++;
  return counts.subarray(0, k);
}

/**
 * Labels and templates of a stencil sum. `rows[s]` and `cols[s]` hold the labels of all rows (columns) in stencil s;
 * the last one, which position -1 stands for, is the average, as is every row (column) without data. Template s has
 * heights[s] x widths[s] numbers, of which the last row and column are averages.
 */
export class Codes {
  static of({ shape, offset, templates, rowLabels, colLabels, unseenRows, unseenCols, rowEffects, colEffects }) {
    const rows = templates.map((T, s) => withAverage(rowLabels[s], shape[0], T.rows, unseenRows));
    const cols = templates.map((T, s) => withAverage(colLabels[s], shape[1], T.cols, unseenCols));
    const padded = templates.map((T, s) => {
      const shares = [[rows[s], shape[0], T.rows], [cols[s], shape[1], T.cols]].map((x) => sharesOf(countLabels(...x)));
      return withAverages(T, ...shares);
    });
    const effects = [padEffects(rowEffects, unseenRows), padEffects(colEffects, unseenCols)];
    const [heights, widths] = [templates.map((T) => T.rows + 1), templates.map((T) => T.cols + 1)];
    return new Codes(shape, offset, rows, cols, padded, heights, widths, ...effects);
  }

  constructor(shape, offset, rows, cols, templates, heights, widths, rowEffects = null, colEffects = null) {
    Object.assign(this, { shape, offset, rows, cols, templates, heights, widths, rowEffects, colEffects });
    this.size = templates.length;
    let at = 0;
    this.begins = widths.map((width) => (at += width) - width); // of the stencils in a profile
    this.profileSize = at;
  }


  row(s, i) {
    return this.rows[s][i < 0 ? this.shape[0] : i];
  }

  col(s, j) {
    return this.cols[s][j < 0 ? this.shape[1] : j];
  }

  rowEffect(i) {
    return this.rowEffects ? this.rowEffects[i < 0 ? this.shape[0] : i] : 0;
  }

  colEffect(j) {
    return this.colEffects ? this.colEffects[j < 0 ? this.shape[1] : j] : 0;
  }

  /** Predict one cell; -1 is the average row (column). */
  predict(i, j) {
    let total = this.offset;
    for (let s = 0; s < this.size; s++) {
      total += this.templates[s][this.widths[s] * this.row(s, i) + this.col(s, j)];
    }
    if (this.rowEffects) total += this.rowEffect(i);
    if (this.colEffects) total += this.colEffect(j);
    return total;
  }

  /** Return, for each stencil, the template row of row i: all side by side. */
  profile(i) {
    const out = new Float64Array(this.profileSize);
    for (let s = 0; s < this.size; s++) {
      const begin = this.widths[s] * this.row(s, i);
      out.set(this.templates[s].subarray(begin, begin + this.widths[s]), this.begins[s]);
    }
    return out;
  }
}

function withAverage(labels, size, k, unseen) {
  const type = k + 1 <= 256 ? Uint8Array : k + 1 <= 65536 ? Uint16Array : Uint32Array;
  const out = new type(size + 1);
  out.set(labels);
  out[size] = k;
  for (const place of unseen) out[place] = k;
  return out;
}

function withAverages({ rows, cols, entries }, rowShares, colShares) {
  const width = cols + 1;
  const out = new Float64Array((rows + 1) * width);
  for (let a = 0; a < rows; a++) {
    for (let c = 0; c < cols; c++) {
      out[a * width + c] = entries[a * cols + c];
      out[rows * width + c] += rowShares[a] * entries[a * cols + c];
    }
  }
  for (let a = 0; a <= rows; a++) {
    for (let c = 0; c < cols; c++) out[a * width + cols] += out[a * width + c] * colShares[c];
  }
  return out;
}

function padEffects(effects, unseen) {
  if (!effects) return null;
  const out = new Float32Array(effects.length + 1);
  out.set(effects);
  for (const place of unseen) out[place] = 0;
  return out;
}
