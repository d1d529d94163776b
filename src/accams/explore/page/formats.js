// Earlier formats of model files, rewritten as parts of the present one.

import { need } from "./container.js";

const SUM_FIELDS = ["offset", "stencils", "coded", "alike", "unseen"];

/** Return fields and tensors by part of a file of format 1: a flat header, and a stencil sum or an estimator. */
export function fromFormat1(header, tensors) {
  const fields = Object.fromEntries(SUM_FIELDS.filter((name) => name in header).map((name) => [name, header[name]]));
  const parts = { stencils: fields };
  const of = { stencils: tensors };
  if (!("class" in header)) return { parts, tensors: of };
  if ("posterior" in header) return { parts: { posterior: {} }, tensors: of };
  const { training, parameters, value_range: range } = header;
  const given = parameters.clip ?? true;
  const clip = typeof given === "boolean" ? (given ? range : null) : given.tuple ?? given;
  const sigma = training.sigma_ || training.train_rmse_ || null;
  parts.values = { range, clip, sigma, zero_weight: header.zero_weight ?? null };
  parts.ids = { row: header.row_ids, col: header.col_ids };
  of.ids = picked(tensors, { row: "row_ids", col: "col_ids" });
  parts.fit = { estimator: header.class, training, parameters, names: header.feature_names ?? null };
  if (tensors.has("activity")) {
    parts.activity = {};
    of.activity = picked(tensors, { levels: "activity" });
  }
  if ("n_seen" in header) {
    const sizes = header.n_seen;
    parts.interactions = { sizes };
    const names = Array.isArray(sizes) ? sizes.map((_, p) => [p, `seen${p}`]) : [[0, "seen"]];
    of.interactions = picked(tensors, Object.fromEntries(names));
    need(of.interactions.size === names.length, "the interactions are missing");
  }
  if ("quality" in header) parts.evaluation = { result: header.quality };
  return { parts, tensors: of };
}

function picked(tensors, names) {
  const found = Object.entries(names).filter(([, name]) => tensors.has(name));
  return new Map(found.map(([own, name]) => [own, tensors.get(name)]));
}
