// Lists by what people choose: scores of items given a history, from an item map.

import { Codes, rint } from "./codes.js";

const NOBODY = -512;
const FINE = 8; // steps of a factor of two in how often an item was chosen

const ENTRIES = 256; // most pairs of labels of two stencils that are added together
const GROUPS = 8; // groups of one or two stencils in a block

/** Return stencils in groups of at most two, and groups in blocks. */
function blocksOf(widths) {
  const groups = [];
  widths.forEach((width, s) => {
    const last = groups.at(-1);
    if (last?.length === 1 && widths[last[0]] * width <= ENTRIES) last.push(s);
    else groups.push([s]);
  });
  const number = Math.ceil(groups.length / GROUPS);
  return Array.from({ length: number }, (_, b) => groups.slice(b * GROUPS, (b + 1) * GROUPS));
}

/** An item map laid out for scoring. */
export class Lists {
  constructor({ stencils, dense, levels, penalty, users, feedback }) {
    Object.assign(this, { dense, feedback, size: levels.length });
    this.codes = stencils ? Codes.of(stencils) : null;
    this.blocks = this.codes ? blocksOf(this.codes.widths) : [];
    const masses = levels.map((x) => (x > NOBODY ? 2 ** (x / FINE) : 0));
    this.popularity = masses.map((x) => x / Math.max(users, 1));
    this.scales = masses.map((x) => 2 ** (rint(Math.log2(x + penalty)) / 2));
    this.chosen = Uint32Array.from(levels.keys()).filter((j) => levels[j] > NOBODY);
    this.levels = levels;
  }

  /** Return whether anybody had chosen an item when the map was made; what nobody had chosen says nothing. */
  isChosen(j) {
    return this.levels[j] > NOBODY;
  }

  /** Return the weight of each value of a history, in single precision as those in files. */
  weights(values) {
    const { kind, likedFrom, seenWeight, unit } = this.feedback;
    const negative = kind === "counts" || kind === "weights" ? values.find((x) => x < 0) : undefined;
    if (negative !== undefined) throw new RangeError(`${kind} must not be negative, but one is ${negative}`);
    const weight = {
      likes: () => 1,
      ratings: (x) => (Math.fround(x) >= Math.fround(likedFrom) ? 1 : seenWeight),
      counts: (x) => (x > 0 ? 1 : 0),
      weights: (x) => x / unit,
    }[kind];
    return values.map((x) => Math.fround(weight(x)));
  }

  /** Return how much having chosen i speaks for j. */
  entry(i, j) {
    if (i === j || !this.isChosen(i)) return 0;
    return this.dense ? this.dense[i * this.size + j] : this.codes.predict(i, j) / this.scales[i];
  }

  /** Return scores of all items for a history (items ascending), or popularity where it says nothing. */
  scores(items, weights) {
    const scores = this.dense ? this.denseScores(items, weights) : this.sumScores(items, weights);
    return scores ? { scores, isPopular: false } : { scores: this.popularity, isPopular: true };
  }

  denseScores(items, weights) {
    const total = new Float64Array(this.size);
    items.forEach((i, p) => {
      for (let j = 0; j < this.size; j++) total[j] += weights[p] * this.dense[i * this.size + j];
    });
    return total.some((x) => x !== 0) ? total : null;
  }

  sumScores(items, weights) {
    const { codes } = this;
    const scaled = items.map((i, p) => (this.isChosen(i) ? weights[p] / this.scales[i] : 0));
    const profile = this.profile(items, scaled);
    if (profile.every((x) => x === 0)) return null;
    const total = new Float64Array(this.size);
    for (const block of this.blocks) {
      const more = new Float64Array(this.size);
      for (const [one, two] of block) this.addGroup(profile, one, two, more);
      for (let j = 0; j < this.size; j++) total[j] += more[j];
    }
    items.forEach((i, p) => (total[i] -= scaled[p] * codes.predict(i, i))); // items do not speak for themselves
    return total;
  }

  /** Add one stencil, or two at a time: the order of additions is that of the library, so that ties are the same. */
  addGroup(profile, one, two, more) {
    const { cols, begins } = this.codes;
    const [a, begin] = [cols[one], begins[one]];
    if (two === undefined) {
      for (let j = 0; j < this.size; j++) more[j] += profile[begin + a[j]];
      return;
    }
    const [b, next] = [cols[two], begins[two]];
    for (let j = 0; j < this.size; j++) more[j] += profile[begin + a[j]] + profile[next + b[j]];
  }

  /** Return one number for each column label of each stencil: weights are summed by row label first. */
  profile(items, weights) {
    const { codes } = this;
    const profile = new Float64Array(codes.profileSize);
    for (let s = 0; s < codes.size; s++) {
      const sums = new Float64Array(codes.heights[s]);
      items.forEach((i, p) => (sums[codes.rows[s][i]] += weights[p]));
      const [T, width, begin] = [codes.templates[s], codes.widths[s], codes.begins[s]];
      sums.forEach((x, a) => {
        if (x !== 0) for (let c = 0; c < width; c++) profile[begin + c] += x * T[a * width + c];
      });
    }
    return profile;
  }
}
