// Blocks, stencils, items, users, map and tree of a model: the twin of accams/explore/answers.py.

import { Codes, countLabels, sharesOf } from "./codes.js";
import { Index } from "./ids.js";
import { Lists } from "./lists.js";
import { pauses } from "./pauses.js";
import { Problem, expect } from "./problem.js";
import { ranked } from "./scoring.js";
import { Search } from "./search.js";

const [MEMBERS, LIKES, LIKED_BY, MOST_SEEN, MAP_MEMBERS] = [5, 3, 5, 200, 3];
const SMALL = 0.01; // share of the users below which a cluster is named after larger ones
const TREE = { depth: 3, branches: 3, members: 6 }; // unless another one is asked for

export class Explorer {
  /** `model` is what `readModel` returns, `names` is ids.json and `site` is site.json. */
  constructor(model, names, site) {
    Object.assign(this, { model, site, titles: names.titles ?? null, hasUsers: names.users !== undefined });
    this.codes = Codes.of(model.stencils);
    this.lists = model.itemMap ? new Lists(model.itemMap) : null;
    this.items = new Index(names.items ?? null, model.shape[1], "item");
    this.users = new Index(names.users ?? null, model.shape[0], "user");
    this.head = { model: site.model.model, version: site.model.version };
    const written = (side) => site.weights?.[side] && Float64Array.from(site.weights[side], Math.fround);
    this.weights = {
      rows: model.activity?.rows ?? written("rows") ?? null,
      cols: model.activity?.cols ?? written("cols") ?? this.lists.popularity,
    };
    this.sides = new Map();
  }

  /** All items by decreasing weight. */
  get order() {
    this.ordered ??= ranked(this.weights.cols, this.weights.cols.keys());
    return this.ordered;
  }

  /** Compute what blocks are named by, stencil by stencil, before somebody asks for all of them at once. */
  prepare() {
    this.preparing ??= (async () => {
      const pause = pauses();
      for (let s = 0; s < this.codes.size; s++) {
        for (const side of [0, 1]) this.side(side, s);
        await pause();
      }
    })();
    return this.preparing;
  }

  get info() {
    return { ...this.site.model };
  }

  // -- parts of answers -----------------------------------------------------------------------------------

  ref(position) {
    return { item: this.items.id(position), title: this.titles?.[position] ?? null };
  }

  refs(positions) {
    return Array.from(positions, (p) => this.ref(p));
  }

  /** Return the position of a known user. */
  userPosition(id) {
    if (!this.hasUsers) throw new Problem(404, "this page holds no users: rate a few items instead");
    return this.users.position(id);
  }

  /** Return the sizes of the clusters of rows (side 0) or columns (side 1), and last the number of all. */
  sizes(side, s) {
    return this.side(side, s).sizes;
  }

  side(side, s) {
    const key = 2 * s + side;
    if (!this.sides.has(key)) {
      const labels = (side ? this.codes.cols : this.codes.rows)[s];
      const k = (side ? this.codes.widths : this.codes.heights)[s] - 1;
      const sizes = [...countLabels(labels, this.codes.shape[side], k), this.codes.shape[side]];
      const first = side ? this.firstItems(labels, k) : null;
      this.sides.set(key, { sizes, first });
    }
    return this.sides.get(key);
  }

  /** Return the heaviest items of each cluster, one more than are named, and last those of all. */
  firstItems(labels, k) {
    const first = Array.from({ length: k }, () => []);
    for (const p of this.order) {
      const inside = first[labels[p]];
      if (inside && inside.length <= MEMBERS) inside.push(p);
    }
    return [...first, Array.from(this.order.subarray(0, MEMBERS + 1))];
  }

  itemBlock(s, label, itself = -1) {
    const { sizes, first } = this.side(1, s);
    const members = first[label].filter((p) => p !== itself).slice(0, MEMBERS);
    return { label, size: sizes[label], members: this.refs(members) };
  }

  userBlock(s, label) {
    const liked = this.site.likes[s][label] ?? -1;
    const likes = liked >= 0 ? this.side(1, s).first[liked].slice(0, LIKES) : [];
    return { label, size: this.sizes(0, s)[label], likes: this.refs(likes) };
  }

  /** Return a mean of the model as a prediction: read on its scale, and within its range. */
  clipped(x) {
    const { scale } = this.model;
    return this.inRange(scale ? scale.mean(x) : x);
  }

  inRange(x) {
    const { clip } = this.model;
    return clip ? Math.min(Math.max(x, clip[0]), clip[1]) : x;
  }

  average(i, j) {
    return this.model.predicts ? this.clipped(this.codes.predict(i, j)) : null;
  }

  /** Return the columns that a row has seen, or null where the model does not know. */
  seen(row) {
    const known = this.model.interactions;
    if (!known) return null;
    const [begin, end] = row < 0 ? [0, 0] : [known.starts[row], known.starts[row + 1]];
    const weights = known.weights ? known.weights.subarray(begin, end) : new Float32Array(end - begin).fill(1);
    return { columns: known.columns.subarray(begin, end), weights };
  }

  // -- answers --------------------------------------------------------------------------------------------

  item(id) {
    const p = this.items.position(id);
    const labels = this.codes.cols.map((column) => column[p]);
    return {
      ...this.head, ...this.ref(p), weight: this.weights.cols[p], average: this.average(-1, p),
      blocks: labels.map((c, s) => ({ stencil: s, ...this.itemBlock(s, c, p) })),
      liked_by: this.likedBy(labels), path: this.path(p),
    };
  }

  /** Return the clusters of users that like an item with these labels most, compared with the average user. */
  likedBy(labels) {
    const found = [];
    labels.forEach((c, s) => {
      const [T, width, k] = [this.codes.templates[s], this.codes.widths[s], this.codes.heights[s] - 1];
      for (let a = 0; a < k; a++) {
        const value = T[a * width + c] - T[k * width + c];
        const size = this.sizes(0, s)[a];
        if (size) found.push({ isSmall: size < SMALL * this.site.model.users, rank: Math.round(value * 1e9), s, a, value });
      }
    });
    found.sort((x, y) => x.isSmall - y.isSmall || y.rank - x.rank || x.s - y.s || x.a - y.a);
    return found.slice(0, LIKED_BY).map(({ s, a, value }) => ({ stencil: s, value, ...this.userBlock(s, a) }));
  }

  user(id) {
    const p = this.userPosition(id);
    const seen = this.seen(p);
    return {
      ...this.head, user: this.users.id(p), weight: this.weights.rows?.[p] ?? 0, average: this.average(p, -1),
      blocks: this.codes.rows.map((labels, s) => ({ stencil: s, ...this.userBlock(s, labels[p]) })),
      n_seen: seen ? seen.columns.length : null, seen: seen ? this.refs(seen.columns.subarray(0, MOST_SEEN)) : [],
    };
  }

  stencils() {
    const stencils = this.codes.templates.map((_, s) => ({
      stencil: s, rows: this.codes.heights[s] - 1, cols: this.codes.widths[s] - 1, contribution: this.contribution(s),
    }));
    return { ...this.head, stencils };
  }

  /** Return the standard deviation of a template's entries over all cells with data. */
  contribution(s) {
    const [T, width] = [this.codes.templates[s], this.codes.widths[s]];
    const [p, q] = [0, 1].map((side) => sharesOf(this.sizes(side, s).slice(0, -1)));
    const inRow = (f, a) => q.reduce((sum, y, c) => sum + y * f(T[a * width + c]), 0);
    const expected = (f) => p.reduce((sum, x, a) => sum + x * inRow(f, a), 0);
    const mean = expected((x) => x);
    return Math.sqrt(expected((x) => (x - mean) ** 2));
  }

  stencil(which) {
    const s = Number(which);
    const { size, heights, widths, templates } = this.codes;
    if (!Number.isInteger(s) || s < 0 || s >= size) {
      const there = size ? `they are numbered from 0 to ${size - 1}` : "it has none";
      throw new Problem(404, `there is no stencil ${String(which).slice(0, 100)} in this model: ${there}`);
    }
    const [rows, cols] = [[...Array(heights[s] - 1).keys()], [...Array(widths[s] - 1).keys()]];
    return {
      ...this.head, stencil: s, contribution: this.contribution(s),
      template: rows.map((a) => cols.map((c) => templates[s][a * widths[s] + c])),
      rows: rows.map((a) => this.userBlock(s, a)), cols: cols.map((c) => this.itemBlock(s, c)),
    };
  }

  /** Return the best-known items, in turn from each branch of the tree; those in no branch last. */
  bestKnown({ n = 24 } = {}) {
    const { items, group } = this.site.map;
    const branchOf = new Int32Array(this.items.size).fill(-2); // not on the map
    group.forEach((branch, p) => (branchOf[items ? items[p] : p] = branch));
    const branches = new Map();
    for (const p of this.order) {
      if (branchOf[p] === -2) continue;
      if (!branches.has(branchOf[p])) branches.set(branchOf[p], []);
      const inside = branches.get(branchOf[p]);
      if (inside.length < n) inside.push(p);
    }
    const alone = branches.get(-1) ?? [];
    branches.delete(-1);
    const all = [...branches].sort(([a], [b]) => a - b).map(([, inside]) => inside);
    const turns = Array.from({ length: n }, (_, turn) => all.flatMap((inside) => inside.slice(turn, turn + 1)));
    return { ...this.head, items: this.refs([...turns.flat(), ...alone].slice(0, n)) };
  }

  async search({ q, n = 10 }) {
    const texts = () => Array.from({ length: this.items.size }, (_, p) => String(this.items.id(p)));
    this.searching ??= (async () => {
      const ids = texts();
      return Search.of(ids.map((id, p) => this.titles?.[p] ?? id), this.weights.cols, ids);
    })();
    const found = (await this.searching).find(String(q ?? ""), Number(n));
    return { ...this.head, items: found.map(({ position, score }) => ({ ...this.ref(position), score })) };
  }

  // -- the tree and the map -------------------------------------------------------------------------------

  hierarchy(request = {}) {
    const { side = "items", depth, branches, members } = { side: "items", ...TREE, ...request };
    expect(side === "items" || side === "users", "side must be items or users");
    const { tree } = this.site;
    const why = side === "users" ? "this page holds no users" : "a tree follows labels, and this model has none";
    expect(tree[side], why);
    const isWithin = (x, most) => x >= 1 && x <= most;
    const fits = isWithin(depth, tree.depth) && isWithin(members, tree.members) && Number(branches) === tree.branches;
    const most = `a depth of at most ${tree.depth} and at most ${tree.members} members`;
    expect(fits, `this page holds the tree of ${tree.branches} branches, with ${most}`);
    return { ...this.head, side, root: this.node(tree[side], side === "items", Number(depth), Number(members)) };
  }

  branch({ stencil, labels, size, members }, isItems, n) {
    const some = members.slice(0, n);
    const named = isItems ? this.refs(some) : some.map((p) => ({ user: this.users.id(p) }));
    return { stencil, labels, size, members: named };
  }

  node(node, isItems, depth, n) {
    const children = depth ? node.children.map((child) => this.node(child, isItems, depth - 1, n)) : [];
    return { ...this.branch(node, isItems, n), children };
  }

  /** Return the branches of the tree in which an item is, from the root on. */
  path(p) {
    let node = this.site.tree.items;
    const split = this.lists?.codes ?? this.codes;
    const unseen = this.lists?.codes ? this.lists.popularity[p] === 0 : this.model.stencils.unseenCols.includes(p);
    const path = [];
    while (node && !unseen && path.length <= TREE.depth) {
      path.push(this.branch(node, true, TREE.members));
      node = node.children.find((child) => child.labels.includes(split.cols[child.stencil][p]));
    }
    return path;
  }

  map() {
    const { items, x, y, group, groups } = this.site.map;
    const places = items ?? [...Array(this.items.size).keys()];
    return {
      ...this.head, items: places.map((p) => this.items.id(p)), titles: places.map((p) => this.titles?.[p] ?? null),
      x, y, weight: places.map((p) => this.weights.cols[p]), group,
      groups: groups.map((members) => ({ members: this.refs(members.slice(0, MAP_MEMBERS)) })),
    };
  }
}
