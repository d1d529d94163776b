// Score all columns for one row in integers, so that the order of a list does not depend on rounding errors.

import { pairwiseSum, rint } from "./codes.js";

const TOP = 2 ** 29; // bound of scores in units

/** Scores of the columns of one stencil sum. */
export class Scoring {
  constructor(codes) {
    this.codes = codes;
    const largest = this.largest();
    this.unit = largest > 0 ? largest / TOP : 1;
    this.base = codes.colEffects ? Int32Array.from(codes.colEffects, (x) => this.inUnits(x)) : null;
  }

  /** Return a bound of the scores, without the offset. */
  largest() {
    const most = (x) => x.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
    const { rowEffects, colEffects } = this.codes;
    const effects = (rowEffects ? most(rowEffects) : 0) + (colEffects ? most(colEffects) : 0);
    return pairwiseSum(this.codes.templates.map(most)) + effects;
  }

  inUnits(x) {
    return rint(Math.min(Math.max(x / this.unit, -2 * TOP), 2 * TOP));
  }

  /** Return the scores of all columns, given a profile and the constant of the row without the offset. */
  scores(profile, constant) {
    const { codes } = this;
    const total = new Int32Array(codes.shape[1]).fill(this.inUnits(constant));
    if (this.base) for (let j = 0; j < total.length; j++) total[j] += this.base[j];
    for (let s = 0; s < codes.size; s++) {
      const own = profile.subarray(codes.begins[s], codes.begins[s] + codes.widths[s]);
      const line = Int32Array.from(own, (x) => this.inUnits(x));
      const labels = codes.cols[s];
      for (let j = 0; j < total.length; j++) total[j] += line[labels[j]];
    }
    return total;
  }
}

/**
 * Return the places in `among` (all, if null) with the highest scores, best first, ties to the earlier; those that
 * `leftOut` (bytes by place) marks are skipped.
 */
export function bestOf(scores, n, among = null, leftOut = null) {
  const best = [];
  const size = among ? among.length : scores.length;
  let least = -Infinity;
  for (let p = 0; p < size; p++) {
    const j = among ? among[p] : p;
    const score = scores[j];
    if ((leftOut && leftOut[j]) || (best.length === n && score <= least)) continue;
    let [lo, hi] = [0, best.length];
    while (lo < hi) {
      const middle = (lo + hi) >> 1;
      if (scores[best[middle]] < score) hi = middle;
      else lo = middle + 1;
    }
    best.splice(lo, 0, j);
    if (best.length > n) best.pop();
    least = scores[best[best.length - 1]];
  }
  return best;
}

/** Return the first place in a sorted array whose entry is not below `wanted`. */
export function lowerBound(sorted, wanted, lo = 0) {
  let hi = sorted.length;
  while (lo < hi) {
    const middle = (lo + hi) >> 1;
    if (sorted[middle] < wanted) lo = middle + 1;
    else hi = middle;
  }
  return lo;
}

/** Return all places in `among`, ascending, by decreasing score; ties stay in their order. */
export function ranked(scores, among) {
  const places = Uint32Array.from(among);
  const sorted = Float64Array.from(places, (p) => -scores[p]).sort(); // numbers alone: many times as fast as by a function
  const met = new Uint32Array(places.length); // at the first of equal scores, how many of them have their place
  const out = new Uint32Array(places.length);
  for (const p of places) {
    const first = lowerBound(sorted, -scores[p]);
    out[first + met[first]++] = p;
  }
  return out;
}
