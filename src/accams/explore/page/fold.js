// Fold in somebody new from a handful of values, without fitting anything again.

import { countLabels, pairwiseSum } from "./codes.js";

const PASSES = 4; // over all stencils

/** Return the log frequency of each row label of each stencil. */
function logPriors(codes) {
  return codes.rows.map((labels, s) => {
    const k = codes.heights[s] - 1;
    const counts = Float64Array.from(countLabels(labels, codes.shape[0], k), (x) => x + 1 / k);
    const total = pairwiseSum(counts);
    return counts.map((x) => Math.log(x / total));
  });
}

/** Return the number of columns for each pair of column labels, numbered over all stencils. */
function columnPairs(codes) {
  const size = codes.profileSize;
  const out = new Float64Array(size * size);
  const own = new Int32Array(codes.size);
  for (let j = 0; j < codes.shape[1]; j++) {
    for (let s = 0; s < codes.size; s++) own[s] = codes.begins[s] + codes.cols[s][j];
    for (let s = 0; s < codes.size; s++) for (let q = 0; q < codes.size; q++) out[own[s] * size + own[q]]++;
  }
  return out;
}

/** The mean square of the effects that are not zero. */
function effectVariance(effects) {
  const squares = effects ? Array.from(effects).filter((x) => x !== 0).map((x) => x * x) : [];
  return squares.length ? pairwiseSum(squares) / squares.length : 0;
}

/**
 * Infers the labels of new rows by mean-field coordinate ascent: each step takes one stencil out of the residual and
 * sets the probabilities of its label given their frequencies and the expectation of all other stencils. The first
 * expectation is the average row. With `blank` above 0, all other columns are zeros of that weight.
 */
export class Folding {
  constructor(codes, noise, blank) {
    Object.assign(this, { codes, blank, variance: noise * noise });
    this.priors = logPriors(codes);
    this.effectVariance = effectVariance(codes.rowEffects);
  }

  get cross() {
    this.pairs ??= columnPairs(this.codes);
    return this.pairs;
  }

  /** Fold in values at these columns; return {profile, constant, labels}. */
  fold(columns, values) {
    const { codes, blank } = this;
    const row = { columns, values, profile: codes.profile(-1), effect: 0, labels: new Int32Array(codes.size) };
    row.left = Float64Array.from(values, (x, p) => x - codes.offset - codes.colEffect(columns[p]));
    row.weights = new Float64Array(codes.profileSize);
    if (blank > 0) row.weights.forEach((_, x) => (row.weights[x] = blank * this.cross[x * codes.profileSize + x]));
    for (let s = 0; s < codes.size; s++) {
      columns.forEach((j, p) => {
        const place = codes.begins[s] + codes.cols[s][j];
        row.left[p] -= row.profile[place];
        row.weights[place] += 1 - blank; // pairs count all columns, the observed ones too
      });
    }
    for (let step = 0; step < PASSES; step++) {
      if (this.effectVariance > 0) this.moveEffect(row);
      for (let s = 0; s < codes.size; s++) this.moveLabel(row, s, step === PASSES - 1);
    }
    return { profile: row.profile, constant: row.effect + codes.offset, labels: row.labels };
  }

  moveEffect(row) {
    let total = 0;
    for (const x of row.left) total += x + row.effect;
    const before = row.effect;
    row.effect = total / (row.left.length + this.variance / this.effectVariance);
    row.left.forEach((_, p) => (row.left[p] += before - row.effect));
  }

  /** Set the expected line of one stencil; before the last pass, only where it is read. */
  moveLabel(row, s, isLast) {
    const { codes, variance } = this;
    const [T, k, width, place] = [codes.templates[s], codes.heights[s] - 1, codes.widths[s], codes.begins[s]];
    const line = row.profile.subarray(place, place + width);
    const N = row.weights.subarray(place, place + width);
    const L = this.sums(row, s, line);
    const present = Array.from(N.keys()).filter((c) => N[c] > 0);
    const score = new Float64Array(k);
    let best = -Infinity;
    for (let a = 0; a < k; a++) {
      let total = 0;
      for (const c of present) {
        const t = T[a * width + c];
        total += (N[c] * t - 2 * L[c]) * t;
      }
      score[a] = this.priors[s][a] - (0.5 * total) / variance;
      if (score[a] > best) [best, row.labels[s]] = [score[a], a];
    }
    let total = 0;
    for (let a = 0; a < k; a++) total += score[a] = Math.exp(score[a] - best);
    for (const c of isLast ? N.keys() : present) {
      let expected = 0;
      for (let a = 0; a < k; a++) expected += score[a] * T[a * width + c];
      line[c] = expected / total;
    }
    row.columns.forEach((j, p) => (row.left[p] -= line[codes.cols[s][j]]));
  }

  /** Take stencil s out of the residual; return the sums of the residual by its column labels. */
  sums(row, s, line) {
    const { codes, blank } = this;
    const L = blank > 0 ? this.blankSums(row, s) : new Float64Array(codes.widths[s]);
    row.columns.forEach((j, p) => {
      const c = codes.cols[s][j];
      const x = (row.left[p] += line[c]);
      L[c] += blank > 0 ? x - blank * (x - row.values[p]) : x;
    });
    return L;
  }

  /** Sum zero less the prediction of all other stencils over all columns. */
  blankSums(row, s) {
    const { codes, blank, cross } = this;
    const [place, width, size] = [codes.begins[s], codes.widths[s], codes.profileSize];
    const L = new Float64Array(width);
    for (let c = place; c < place + width; c++) {
      let total = -codes.offset * cross[c * size + c];
      for (let q = 0; q < size; q++) if (q < place || q >= place + width) total -= cross[c * size + q] * row.profile[q];
      L[c - place] = blank * total;
    }
    return L;
  }
}

/** Predict a folded-in row at column j. */
export function predictFolded(codes, { profile, constant }, j) {
  const terms = new Float64Array(codes.size);
  for (let s = 0; s < codes.size; s++) terms[s] = profile[codes.begins[s] + codes.col(s, j)];
  return constant + pairwiseSum(terms) + (codes.colEffects ? codes.colEffect(j) : 0);
}
