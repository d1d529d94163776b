// Recommendations, predictions, similar items and explanations: the twin of the service's answers.

import { pairwiseSum } from "./codes.js";
import { Explorer } from "./explorer.js";
import { Folding, predictFolded } from "./fold.js";
import { quantile as normalQuantile } from "./normal.js";
import { Problem, expect } from "./problem.js";
import { Scoring, bestOf, ranked } from "./scoring.js";
import { likeness } from "./similar.js";

const [SMALLEST_NOISE, UNKNOWN_NOISE] = [1e-3, 0.2]; // of the range of values
const MOST = 1000; // items of a list
const NONE_ALIKE = (noun) => `it knows of no ${noun} that are more alike than others`;
const isShare = (x) => x === null || (typeof x === "number" && x > 0 && x < 1);

/** Return the positions 0 .. size - 1 without those that were never seen. */
function withData(size, unseen) {
  const isUnseen = new Uint8Array(size);
  for (const place of unseen) isUnseen[place] = 1;
  const places = new Uint32Array(size - unseen.length);
  for (let p = 0, at = 0; p < size; p++) if (!isUnseen[p]) places[at++] = p;
  return places;
}

export class Answers extends Explorer {
  constructor(model, names, site) {
    super(model, names, site);
    this.scoring = new Scoring(this.codes);
    this.columns = withData(model.shape[1], model.stencils.unseenCols);
    this.unseenRows = new Set(model.stencils.unseenRows);
    this.alike = new Map();
  }

  /** Standard deviation with which new observations are weighed against what the model expects. */
  get noise() {
    const [low, high] = this.model.range ?? [0, 0];
    return Math.max(this.model.sigma || UNKNOWN_NOISE * (high - low), SMALLEST_NOISE * (high - low)) || 1;
  }

  get folding() {
    this.folds ??= new Folding(this.codes, this.noise, this.model.zeroWeight || 0);
    return this.folds;
  }

  // -- who and what is asked about ------------------------------------------------------------------------

  /** Return whether lists are ranked by choice or by value. */
  rankedBy(by, quantile = null) {
    expect(["auto", "value", "choice"].includes(by), "by must be auto, value or choice");
    const chosen = by === "auto" ? (this.lists && quantile === null ? "choice" : "value") : by;
    if (chosen === "value") this.needValues("ranking by value");
    expect(chosen === "value" || this.lists, "this model has no item map, which lists by choice need: fit ItemACCAMS");
    const isMixed = chosen === "choice" && quantile !== null;
    expect(!isMixed, "a quantile is one of predicted values: pass by='value', or no quantile");
    return chosen;
  }

  needValues(what) {
    expect(this.model.predicts, `${what} needs a model that predicts values, and this one makes lists only`);
  }

  needSpread(what) {
    this.needValues(what);
    const advice = "BayesianACCAMS, or what is compressed of it";
    expect(this.model.spread, `${what} needs a model that knows its predictive spread: ${advice}`);
  }

  /** Return a known user {row}, or somebody new {row: -1, columns, values, folded}. */
  who({ user = null, rated = null }, unknown = "error") {
    const isOne = (user === null) !== (rated === null);
    expect(isOne, "give either user, the id of a known one, or rated, what somebody new has rated");
    if (rated !== null) return this.guest(rated);
    const found = this.hasUsers ? this.users.find(user) : -1;
    const row = unknown === "average" ? found : this.userPosition(user);
    return { row, user: row < 0 ? user : this.users.id(row) };
  }

  guest(rated) {
    const entries = rated instanceof Map ? [...rated] : Object.entries(rated);
    expect(entries.length, "rated is empty: give at least one value, such as {item: value}");
    const columns = entries.map(([id]) => this.items.position(id));
    const values = entries.map(([, value]) => value);
    expect(values.every(Number.isFinite), "rated has values that are not numbers");
    expect(new Set(columns).size === columns.length, "an item comes twice in the history: give one value for each");
    if (this.model.predicts) this.checkValues(values);
    const { scale, predicts } = this.model;
    const seen = scale ? values.map((x) => scale.latent(x)) : values;
    const folded = predicts ? this.folding.fold(columns, seen) : null;
    return { row: -1, user: null, columns, values, folded };
  }

  checkValues(values) {
    const [low, high] = this.model.range ?? [-Infinity, Infinity];
    const outside = values.find((x) => Math.fround(x) < Math.fround(low) || Math.fround(x) > Math.fround(high));
    const range = `the range of the training values (${low} to ${high})`;
    expect(outside === undefined, `the value ${outside} lies outside ${range}: give values on the same scale`);
  }

  /** Return the mean before clipping and the variance of an observation. */
  moments({ row, folded }, j) {
    const { spread } = this.model;
    const mean = folded ? predictFolded(this.codes, folded, j) : this.codes.predict(row, j);
    if (!spread) return { mean, variance: 0 };
    const a = folded || row < 0 ? spread.sizes[0] - 1 : spread.rowClasses[row];
    const c = j < 0 ? spread.sizes[1] - 1 : spread.colClasses[j];
    return { mean, variance: spread.variances[a * spread.sizes[1] + c] };
  }

  /** Return {low, high} of an interval that holds an observation so often, or nothing. */
  interval({ mean, variance }, level) {
    if (level === null) return {};
    const { scale } = this.model;
    const end = (p) => {
      const x = mean + Math.sqrt(variance) * normalQuantile(p);
      return this.inRange(scale ? scale.place(x) : x);
    };
    return { low: end((1 - level) / 2), high: end((1 + level) / 2) };
  }

  // -- recommend ------------------------------------------------------------------------------------------

  recommend(request) {
    const { n = 10, by: order = "auto", quantile = null, interval = null } = request;
    const { explain = false, terms = 3, unknown = "error" } = request;
    expect(Number.isInteger(n) && n >= 1 && n <= MOST, `n must be an integer from 1 to ${MOST}`);
    expect(isShare(quantile) && isShare(interval), "quantile and interval must be numbers between 0 and 1");
    const by = this.rankedBy(order, quantile);
    if (interval !== null) this.needSpread("interval");
    if (quantile !== null) this.needSpread("quantile");
    const who = this.who(request, unknown);
    const excludesSeen = this.excludesSeen(request, by);
    const leftOut = this.leftOut(request, who, excludesSeen);
    const asked = request.candidates?.map((id) => this.items.position(id));
    const among = asked ? Uint32Array.from(new Set(asked)).sort() : null;
    const find = by === "choice" ? this.chosen : this.valued;
    const [best, rule] = find.call(this, who, n, among, leftOut, quantile);
    const items = best.map(({ j, score }, p) => {
      const moments = this.known(who, by) ? this.moments(who, j) : null;
      const prediction = moments ? this.clipped(moments.mean) : null;
      const line = { ...this.ref(j), rank: p + 1, score: score ?? prediction, prediction };
      Object.assign(line, moments && interval !== null ? this.interval(moments, interval) : {});
      return explain ? { ...line, explanation: this.explanation(who, j, by, terms) } : line;
    });
    return { ...this.head, user: who.user, by, rule, excluded_seen: excludesSeen, items };
  }

  /** Return whether values are predicted for somebody: beside lists, of those whom the model knows. */
  known(who, by) {
    return this.model.predicts && (by === "value" || who.folded !== undefined || who.row >= 0);
  }

  excludesSeen({ rated = null, exclude_seen: asked = null }, by) {
    const isInformed = rated !== null || this.model.interactions !== null;
    expect(isInformed || !asked, "this page does not know what users have seen: set exclude_seen to false");
    expect(isInformed || by === "value", "lists need what a user has chosen: give rated");
    return asked ?? isInformed;
  }

  leftOut({ exclude = [] }, who, excludesSeen) {
    const mark = new Uint8Array(this.model.shape[1]);
    if (excludesSeen) for (const j of who.columns ?? this.seen(who.row).columns) mark[j] = 1;
    for (const id of exclude) if (this.items.find(id) >= 0) mark[this.items.find(id)] = 1;
    return mark;
  }

  /** Return the best columns by predicted value, and the rule if it is not that. */
  valued(who, n, among, leftOut, quantile) {
    const { codes } = this;
    const columns = among ?? this.columns;
    const lower = quantile === null ? 0 : -normalQuantile(quantile);
    const profile = who.folded ? who.folded.profile : codes.profile(who.row);
    const constant = who.folded ? who.folded.constant - codes.offset : codes.rowEffect(who.row);
    let best = null;
    if (!lower) best = bestOf(this.scoring.scores(profile, constant), n, columns, leftOut);
    else best = this.byQuantile(who, n, columns, leftOut, lower, profile, constant);
    const isAverage = !who.folded && (who.row < 0 || this.unseenRows.has(who.row));
    return [best.map((j) => ({ j, score: null })), isAverage ? "average user" : ""];
  }

  /** Rank by mean less so many standard deviations. */
  byQuantile(who, n, columns, leftOut, lower, profile, constant) {
    let order = columns.filter((j) => !leftOut[j]);
    if (who.folded) order = ranked(this.scoring.scores(profile, constant), order);
    const scores = new Float64Array(this.model.shape[1]);
    for (const j of order) {
      const { mean, variance } = this.moments(who, j);
      scores[j] = mean - lower * Math.sqrt(variance);
    }
    return bestOf(scores, n, order);
  }

  /** Return what somebody has chosen: items in ascending order, and their weights. */
  history(who) {
    if (who.columns) {
      const weights = this.weightsOf(who.values);
      const order = [...who.columns.keys()].sort((a, b) => who.columns[a] - who.columns[b]);
      return { items: order.map((p) => who.columns[p]), weights: order.map((p) => weights[p]) };
    }
    const seen = this.seen(who.row);
    expect(seen, "lists need what a user has chosen: give rated");
    return { items: Array.from(seen.columns), weights: Array.from(seen.weights) };
  }

  weightsOf(values) {
    try {
      return this.lists.weights(values);
    } catch (error) {
      throw new Problem(422, error.message);
    }
  }

  chosen(who, n, among, leftOut) {
    const { items, weights } = this.history(who);
    const { scores, isPopular } = this.lists.scores(items, weights);
    const best = bestOf(scores, n, among ?? this.lists.chosen, leftOut);
    return [best.map((j) => ({ j, score: scores[j] })), best.length && isPopular ? "popular items" : ""];
  }

  // -- predict and similar --------------------------------------------------------------------------------

  predict({ pairs = null, rated = null, items = null, interval = null, unknown = "error" }) {
    this.needValues("predict");
    expect(isShare(interval), "interval must be a number between 0 and 1");
    if (interval !== null) this.needSpread("interval");
    const fits = pairs ? rated === null && items === null : rated !== null && items !== null;
    expect(fits, "give either pairs of user and item, or rated and items");
    const guest = pairs ? null : this.guest(rated);
    const predictions = (pairs ?? items.map((item) => [null, item])).map(([user, item]) => {
      const who = guest ?? this.who({ user }, unknown);
      const j = unknown === "average" ? this.items.find(item) : this.items.position(item);
      const moments = this.moments(who, j);
      const shown = { user: who.user, item: j < 0 ? item : this.items.id(j) };
      return { ...shown, prediction: this.clipped(moments.mean), ...this.interval(moments, interval) };
    });
    return { ...this.head, predictions };
  }

  similar({ item = null, user = null, n = 10, by = "weighted" }) {
    expect((item === null) !== (user === null), "give either an item or a user");
    expect(by === "weighted" || by === "hamming", "by must be weighted or hamming");
    expect(Number.isInteger(n) && n >= 1 && n <= MOST, `n must be an integer from 1 to ${MOST}`);
    if (item === null) {
      const p = this.userPosition(user);
      expect(this.model.predicts, `this model makes lists from histories: ${NONE_ALIKE("users")}`);
      const users = this.nearest(0, p, n, by).map(([q, score]) => ({ user: this.users.id(q), score }));
      return { ...this.head, user: this.users.id(p), users };
    }
    const p = this.items.position(item);
    const isMapped = this.lists && (this.lists.isChosen(p) || !this.model.predicts); // else values alone tell
    const found = isMapped && this.lists.dense ? this.nearestInMap(p, n, by) : this.nearest(1, p, n, by, isMapped);
    return { ...this.head, ...this.ref(p), items: found.map(([q, score]) => ({ ...this.ref(q), score })) };
  }

  /** Return the positions most like one, with their scores. */
  nearest(side, p, n, by, isMapped = false) {
    const key = `${side} ${by} ${isMapped}`;
    if (!this.alike.has(key)) this.alike.set(key, this.likenessOf(side, by, isMapped));
    const { codes, scoring, columns } = this.alike.get(key);
    const itself = new Uint8Array(codes.shape[1]);
    itself[p] = 1;
    const best = bestOf(scoring.scores(codes.profile(p), 0), n, columns, itself);
    return best.map((q) => [q, codes.predict(p, q)]);
  }

  likenessOf(side, by, isMapped) {
    expect(isMapped || this.codes.size, `this model has no stencils: ${NONE_ALIKE(side ? "items" : "users")}`);
    const codes = likeness(isMapped ? this.lists.codes : this.codes, side, by);
    const seen = side ? this.columns : withData(this.model.shape[0], this.model.stencils.unseenRows);
    return { codes, scoring: new Scoring(codes), columns: isMapped ? this.lists.chosen : seen };
  }

  /** Compare the columns of a dense map: what speaks for both items, by correlation. */
  nearestInMap(p, n, by) {
    expect(by !== "hamming", "by='hamming' compares labels, and this model holds the whole map: fit it with max_bytes");
    const { dense, size, chosen } = this.lists;
    const centred = (j) => {
      const column = Float64Array.from({ length: size }, (_, i) => dense[i * size + j]);
      const mean = pairwiseSum(column) / size;
      return column.map((x) => x - mean);
    };
    const product = (x, y) => x.reduce((sum, value, i) => sum + value * y[i], 0);
    const itself = centred(p);
    const length = Math.sqrt(product(itself, itself));
    const scores = new Float64Array(size);
    for (const j of chosen) {
      const other = centred(j);
      scores[j] = product(itself, other) / (length * Math.sqrt(product(other, other)) || 1);
    }
    return bestOf(scores, n, chosen.filter((j) => j !== p)).map((j) => [j, scores[j]]);
  }

  // -- explain --------------------------------------------------------------------------------------------

  explain(request) {
    const { by: order = "auto", terms = null, unknown = "error" } = request;
    const by = this.rankedBy(order);
    const who = this.who(request, unknown);
    const isNumber = terms === null || (Number.isInteger(terms) && terms >= 1);
    expect(isNumber, "terms must be an integer of at least 1, or null");
    return { ...this.head, ...this.explanation(who, this.items.position(request.item), by, terms) };
  }

  explanation(who, j, by, terms) {
    return by === "choice" ? this.becauseOf(who, j, terms) : this.split(who, j, terms);
  }

  /** Explain a score by the items of a history. */
  becauseOf(who, j, n) {
    const { items, weights } = this.history(who);
    const { scores, isPopular } = this.lists.scores(items, weights);
    const score = this.lists.isChosen(j) ? scores[j] : 0; // what nobody had chosen has no reasons
    const speaks = !isPopular && this.lists.isChosen(j); // nothing speaks for itself
    const reason = (i, p) => (i === j ? [] : [{ ...this.ref(i), value: weights[p] * this.lists.entry(i, j) }]);
    const all = speaks ? items.flatMap(reason) : [];
    all.sort((a, b) => b.value - a.value);
    const [terms, others] = largest(all, n);
    const popularity = isPopular ? score : 0;
    const rounding = score - (addUp([popularity, ...terms.map((x) => x.value)]) + others);
    return { by: "choice", ...this.ref(j), score, popularity, terms, others, rounding };
  }

  /** Explain a prediction by stencils. */
  split(who, j, n) {
    const { codes } = this;
    const { mean } = this.moments(who, j);
    const prediction = this.clipped(mean);
    const values = codes.cols.map((_, s) => {
      const c = codes.col(s, j);
      if (who.folded) return who.folded.profile[codes.begins[s] + c];
      return codes.templates[s][codes.widths[s] * codes.row(s, who.row) + c];
    });
    const [named, others] = largest(values.map((value, stencil) => ({ stencil, value })), n);
    const terms = named.map(({ stencil: s, value }) => {
      const label = who.folded ? who.folded.labels[s] : codes.row(s, who.row);
      const blocks = { users: this.userBlock(s, label), items: this.itemBlock(s, codes.col(s, j), j) };
      return { stencil: s, value, ...blocks, user_traits: [], item_traits: [] }; // small models know no features
    });
    const effect = who.folded ? who.folded.constant - codes.offset : codes.rowEffect(who.row);
    const effects = effect + codes.colEffect(j);
    const clipping = prediction !== mean ? prediction - mean : 0;
    const total = addUp([codes.offset, ...terms.map((x) => x.value), others, effects, 0, clipping]);
    const rest = { others, effects, remainder: 0, clipping, rounding: prediction - total };
    return { by: "value", ...this.ref(j), prediction, offset: codes.offset, terms, ...rest };
  }
}

/** Return the n largest terms in magnitude, or all as they are, and the sum of the others. */
function largest(terms, n) {
  if (n === null) return [terms, 0];
  const order = [...terms].sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  return [order.slice(0, n), pairwiseSum(order.slice(n).map((x) => x.value))];
}

function addUp(numbers) {
  return numbers.reduce((sum, x) => sum + x);
}
