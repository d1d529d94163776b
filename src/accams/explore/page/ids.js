// Positions of ids: an id is found by itself or by its text.

import { Problem } from "./problem.js";

const NEAR = 3; // ids that are suggested

export class Index {
  /** `ids` are all ids in order of their positions; null: the positions themselves. */
  constructor(ids, size, noun) {
    Object.assign(this, { ids, size, noun, places: new Map() });
    ids?.forEach((id, p) => this.places.set(id, p));
  }

  id(position) {
    return this.ids ? this.ids[position] : position;
  }

  /** Return the position of an id, -1 if it is unknown; an integer and its text are the same id. */
  find(id) {
    const number = typeof id === "string" && String(Number(id)) === id ? Number(id) : id;
    if (this.ids) return this.places.get(id) ?? this.places.get(number) ?? this.places.get(String(id)) ?? -1;
    return Number.isInteger(number) && number >= 0 && number < this.size ? number : -1;
  }

  /** Return the position of an id; throw a problem if it is unknown. */
  position(id) {
    const found = this.find(id);
    if (found >= 0) return found;
    const shown = typeof id === "string" && !/^-?[0-9]+$/.test(id) ? `'${id.slice(0, 100)}'` : String(id);
    const near = this.nearest(id);
    const advice = near.length ? `; the nearest ids are ${near.join(", ")}` : "";
    throw new Problem(404, `there is no ${this.noun} ${shown} in this model${advice}`);
  }

  /** Return the three nearest of ids that are numbers. */
  nearest(id) {
    const all = this.ids ?? Array.from({ length: this.size }, (_, p) => p);
    if (!all.every((x) => typeof x === "number")) return [];
    const wanted = Number(id);
    const away = (x) => (Number.isNaN(wanted) ? 0 : Math.abs(x - wanted));
    return [...all].sort((a, b) => away(a) - away(b)).slice(0, NEAR);
  }
}
