// The scale of ordinal ratings: the twin of accams/model/scale.py.

import { need } from "./container.js";
import { below } from "./normal.js";

const isOrdered = (x) => x.every((value, p) => !p || value >= x[p - 1]);

/** Read the part `scale`: values, cut points between them, and what each value stands for on the model's own scale. */
export function readScale({ values, cuts, latents, mean_cuts: meanCuts, spread, mean_spread: meanSpread }) {
  const fits = values.length > 1 && [cuts, meanCuts].every((x) => x.length === values.length - 1);
  need(fits && latents.length === values.length && spread > 0 && meanSpread > 0, "its scale cannot be");
  need([values, cuts, latents, meanCuts].every(isOrdered), "its scale cannot be");
  return new Scale({ values, cuts, latents, meanCuts, meanSpread });
}

export class Scale {
  constructor(parts) {
    Object.assign(this, parts);
    this.middles = this.cuts.map((_, p) => 0.5 * (this.values[p] + this.values[p + 1]));
  }

  /** Return the expected rating where the model predicts x. */
  mean(x) {
    const { values, meanCuts, meanSpread } = this;
    return meanCuts.reduce((sum, cut, p) => sum + (values[p + 1] - values[p]) * below((x - cut) / meanSpread), values[0]);
  }

  /** Return an observed value as a number of the model's own scale. */
  latent(value) {
    return interpolated(value, this.values, this.latents);
  }

  /** Return a number of the model's own scale as a place on that of the values. */
  place(x) {
    const { cuts, middles, values } = this;
    const last = cuts.length - 1;
    let place = interpolated(x, cuts, middles);
    if (x < cuts[0]) place = middles[0] + (x - cuts[0]);
    if (x > cuts[last]) place = middles[last] + (x - cuts[last]);
    return Math.min(Math.max(place, values[0]), values[values.length - 1]);
  }
}

/** Return the height at x of the line through the points (from[p], to[p]), which is level beyond its ends. */
function interpolated(x, from, to) {
  const p = from.findLastIndex((each) => each <= x);
  if (p < 0) return to[0];
  if (p === from.length - 1) return to[p];
  return to[p] + ((to[p + 1] - to[p]) / (from[p + 1] - from[p])) * (x - from[p]);
}
