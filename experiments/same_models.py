"""Fit models with fixed seeds to real data, and compare them with those of an earlier run, bit for bit.

A refactoring must not change a model. Run this before and after it, on the same machine and the same versions of the
dependencies:

    python experiments/same_models.py before.json --save models/     # on the old code
    python experiments/same_models.py after.json --load models/      # on the new code
    diff before.json after.json

Every entry is a digest of exact bytes: templates and labels, predictions, standard deviations, recommendations,
similar items, folded-in rows, explanations, and a distilled model. `--load` also reads the files that the first run
saved, and checks their predictions. (Needs MovieLens 100K, the CMU faces and Oregon-2, see docs/data.md.)
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import accams
from accams import ACCAMS, BayesianACCAMS, Observations, StencilSum
from accams.data import datasets
from common import use_local_data

SHORT: dict[str, Any] = {"n_stencils": 6, "n_clusters": 5, "n_chains": 2, "n_sweeps": 12, "verbose": False}


def digest(*arrays: Any) -> str:
    """Digest of the exact bytes of some arrays."""
    state = sha256()
    for each in arrays:
        x = np.asarray(each)
        state.update(repr(x.tolist()).encode() if x.dtype.kind in "OU" else np.ascontiguousarray(x).tobytes())
    return state.hexdigest()[:16]


def of_sum(sum_: StencilSum) -> str:
    """Digest of all numbers of a stencil sum."""
    parts = [sum_.offset, *sum_.templates, *sum_.row_labels, *sum_.col_labels]
    effects = [x for x in (sum_.row_effects, sum_.col_effects) if x is not None]
    return digest(*parts, *effects, sum_.unseen_rows, sum_.unseen_cols)


def some_pairs(observations: Observations, n: int = 2000) -> NDArray[Any]:
    """Random pairs of ids."""
    random = np.random.default_rng(1)
    rows, cols = (x.ids[random.integers(len(x), size=n)] for x in (observations.row_index, observations.col_index))
    return np.column_stack([rows, cols])


def describe(model: Any, observations: Observations) -> dict[str, str]:
    """Digests of what a fitted model says."""
    pairs = some_pairs(observations)
    answers = {"sum": of_sum(model.stencils_), "predict": digest(model.predict(pairs))}
    if isinstance(model, BayesianACCAMS):
        mean, std, quantiles = model.predict(pairs, return_std=True, quantiles=[0.1, 0.9])
        answers["std"] = digest(mean, std, quantiles)
        answers["draws"] = digest(
            *(x for d in model.posterior_.draws for x in (d.codes.rows, d.codes.cols, d.codes.flat))
        )
        answers["sigma"] = f"{model.sigma_!r} {model.predictive_sigma_!r}"
    users, items = observations.row_index.ids[:20].tolist(), observations.col_index.ids[:8].tolist()
    best = list(model.recommend(users, 7))
    answers["recommend"] = digest([str(x[1]) for x in best], [x[3] for x in best])
    answers["similar"] = digest(*([str(x[0]), x[1]] for item in items[:3] for x in map(tuple, model.similar(item, 5))))
    value = float(observations.values[0])
    guest = model.fold_in(dict.fromkeys(items[:5], value))
    answers["fold_in"] = digest(guest.predict(items))
    why = model.explain(users[3], items[2])
    answers["explain"] = digest([why.prediction, why.offset, why.effects, why.remainder], [t.value for t in why.terms])
    answers["hierarchy"] = digest([str(model.hierarchy(2))])
    answers["distill"] = of_sum(model.distill(20_000))
    return answers


def cases() -> dict[str, tuple[Observations, Callable[[], Any]]]:
    """Data and an estimator for every case."""
    films = datasets.movielens("100k").observations
    faces = datasets.faces()
    pixels = Observations.from_dense(faces.observations.values.reshape(faces.observations.shape)[::8, ::16])
    graph = datasets.as_graph("oregon2").observations
    bayes = BayesianACCAMS
    return {
        "films accams": (films, lambda: ACCAMS(8, 8, verbose=False)),
        "films accams early": (films, lambda: ACCAMS(30, (8, 5), early_stopping=True, n_relearn=1, verbose=False)),
        "films bayes": (films, lambda: bayes(**SHORT)),
        "films auto": (films, lambda: bayes(n_chains=2, n_sweeps=6, verbose=False)),
        "films effects": (films, lambda: bayes(effects="continuous", noise="sampled", tau="sampled", **SHORT)),
        "films paper": (films, lambda: bayes.paper(n_stencils=4, n_sweeps=5, n_burn_in=2, verbose=False)),
        "films backfit": (films, lambda: bayes(schedule="backfit", **{**SHORT, "n_sweeps": 3})),
        "films early": (films, lambda: bayes(early_stopping=True, rao_blackwell=True, patience=3, **SHORT)),
        "faces accams": (pixels, lambda: ACCAMS(6, 8, refit=True, verbose=False)),
        "faces bayes": (pixels, lambda: bayes(**{**SHORT, "n_sweeps": 5})),
        "graph accams": (graph, lambda: ACCAMS(4, 8, verbose=False)),
        "graph bayes": (graph, lambda: bayes(**{**SHORT, "n_sweeps": 4})),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--save", type=Path, help="also save the models into this folder")
    parser.add_argument("--load", type=Path, help="also load models that an earlier run saved")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", FutureWarning)
    use_local_data()
    answers: dict[str, dict[str, str]] = {}
    for name, (observations, make) in cases().items():
        model = make().fit(observations)
        answers[name] = describe(model, observations)
        file, pairs = f"{name.replace(' ', '_')}.accams", some_pairs(observations)
        if asked.save is not None:
            asked.save.mkdir(exist_ok=True)
            model.save(asked.save / file)
            model.stencils_.save(asked.save / f"sum_{file}")
        if asked.load is not None:
            same = np.array_equal(accams.load(asked.load / file).predict(pairs), model.predict(pairs))
            print(f"{name}: the file of the earlier run {'predicts the same' if same else 'PREDICTS OTHERWISE'}")
        print(f"{name}: {answers[name]}", flush=True)
    asked.output.write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    main()
