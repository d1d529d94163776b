"""Compare with other libraries on MovieLens: ratings and lists, by accuracy, by seconds and by bytes.

Ratings: test RMSE on the 90:10 split of a seed, that of the other tables; bytes are those of the file that a library
writes, or of its pickle where it has no format of its own. Lists: ten likes of each user are to be found, the protocol
leave-ten-out of `lists/protocols.py`; bytes are those of ours as saved, and of the numbers that a list needs of the
others (`lists/rivals.py`), whose files are larger.

Seconds are those of a fit from arrays in memory, on two cores (Surprise and myFM use one): the median of three where
they are few. *times* is their ratio to the first line's, which is what to compare where other work runs beside.
Settings of the others are those that `--tune` chose, of a few, on ratings (likes) that are in no test part; ours run
with their defaults. What is not installed is left out.

Run: python experiments/compare_libraries.py [--sets 100k 1m] [--methods NAME ...] [--seed 0] [--quick] [--tune]
(needs pip install implicit scikit-surprise lenskit myfm pandas)
"""

from __future__ import annotations

import os

if hasattr(os, "sched_setaffinity"):  # before numpy and the others count the cores
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])

import argparse
import importlib
import pickle
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent / "accuracy"))

from accams import ACCAMS, BayesianACCAMS
from accams.data import datasets
from common import machine, table, use_local_data
from libraries import one_hot
from lists import ours
from lists.protocols import Task, as_matrix, best, leave_ten_out, weigh
from lists.rivals import DROPOUT, EASE, RIVALS, Fitted, Matrix, Method, by_map
from lists.search import as_text, choose
from paper.methods import grid
from paper.sets import Split, split, tuning_split

say = partial(print, flush=True)
Setting = Mapping[str, Any]
PACKAGES = {"surprise": "scikit-surprise", "lenskit": "lenskit", "myfm": "myfm 'setuptools<81'", "implicit": "implicit"}
SMALL = 50_000  # bytes
REPEATS, CHEAP = 3, 10.0  # fits of which the median is taken, while they have taken less than so many seconds
POPULARITY, *_, NEIGHBOURS, ALS = RIVALS


class Model(NamedTuple):
    """A fitted model: what it is called beside the others of its fit, its predictions, and how it is saved."""

    label: str
    predict: Callable[[np.ndarray, np.ndarray], np.ndarray]
    save: Callable[[Path], object]


@dataclass(frozen=True)
class Rater:
    """A model of ratings, with its setting for each set, and the settings that `--tune` tries."""

    label: str
    library: str
    models: Callable[..., Iterator[Model]]
    settings: Mapping[str, Setting] = field(default_factory=dict)
    quick: Setting = field(default_factory=dict)
    grid: Sequence[Setting] = ()


class Lister(NamedTuple):
    """A model of lists, and what is different from where its search begins for each set."""

    method: Method
    library: str = ""
    settings: Mapping[str, Setting] = {}  # noqa: RUF012


def of_pairs(model: Any, label: str = "") -> Model:
    """Return a model of ours as one that takes positions."""
    return Model(label, lambda rows, cols: model.predict(np.stack([rows, cols], axis=1)), model.save)


def pickled(model: Any) -> Callable[[Path], object]:
    """Return what saves a model as a pickle."""
    return lambda path: path.write_bytes(pickle.dumps(model, pickle.HIGHEST_PROTOCOL))


def accams_models(part: Split, seed: int, **setting: Any) -> Iterator[Model]:
    yield of_pairs(ACCAMS(random_state=seed, verbose=False, **setting).fit(part.observations))


def bayesian_models(part: Split, seed: int, **setting: Any) -> Iterator[Model]:
    model = BayesianACCAMS(random_state=seed, verbose=False, **setting).fit(part.observations)
    yield of_pairs(model)
    yield of_pairs(model.compress(SMALL, verbose=False), f", compressed to {SMALL // 1000} KB")


def surprise_models(part: Split, seed: int, kind: str, **setting: Any) -> Iterator[Model]:
    import surprise

    entries = [(u, i, r, None) for u, i, r in zip(*(x.tolist() for x in part.train[:3]), strict=True)]
    seeded = {"random_state": seed} if kind in ("SVD", "CoClustering") else {}
    model = getattr(surprise, kind)(verbose=False, **seeded, **setting)
    model.fit(surprise.Dataset(surprise.Reader()).construct_trainset(entries))

    def predict(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        pairs = zip(rows.tolist(), cols.tolist(), strict=True)
        return np.array([model.predict(u, i, clip=False).est for u, i in pairs])

    yield Model("", predict, lambda path: surprise.dump.dump(path, algo=model))


def lenskit_models(part: Split, seed: int, **setting: Any) -> Iterator[Model]:
    import pandas as pd
    from lenskit.als import BiasedMFScorer
    from lenskit.batch import predict as predict_all
    from lenskit.data import ItemListCollection
    from lenskit.pipeline import predict_pipeline

    data, options = lenskit_data(*part.train[:3], seed)
    model = predict_pipeline(BiasedMFScorer(**setting))
    model.train(data, options)

    def predict(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        asked = pd.DataFrame({"user_id": rows, "item_id": cols})
        found = predict_all(model, ItemListCollection.from_df(asked, "user_id"), n_jobs=1).to_df()
        return asked.merge(found, how="left", on=["user_id", "item_id"])["score"].to_numpy(np.float64)

    yield Model("", predict, pickled(model))


def lenskit_data(rows: np.ndarray, cols: np.ndarray, values: np.ndarray, seed: int = 0) -> tuple[Any, Any]:
    """Return ratings as a data set of LensKit, and how to train with them."""
    import pandas as pd
    from lenskit.data import from_interactions_df
    from lenskit.training import TrainingOptions

    frame = pd.DataFrame({"user_id": rows, "item_id": cols, "rating": values.astype(np.float64)})
    return from_interactions_df(frame), TrainingOptions(rng=seed)


def myfm_models(part: Split, seed: int, rank: int, **sampling: Any) -> Iterator[Model]:
    from myfm import MyFMRegressor

    X, _, shapes = one_hot(part.train, part.test)
    model = MyFMRegressor(rank=rank, random_seed=seed)
    model.fit(X, part.train.values, group_shapes=shapes, **sampling)

    def predict(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        asked = part.test._replace(rows=rows, cols=cols)
        return np.asarray(model.predict(one_hot(part.train, asked)[1], n_workers=2))

    yield Model("", predict, pickled(model))


def lenskit_als(ratings: Matrix, input: str, size: int, weight: float, regularization: float, epochs: int) -> Fitted:
    """Factorise choices with LensKit; the weights of the input are its `use_ratings`."""
    from lenskit.als import ImplicitMFScorer

    x = weigh(ratings, input).tocoo()
    data, options = lenskit_data(x.row, x.col, x.data)
    model = ImplicitMFScorer(embedding_size=size, weight=weight, regularization=regularization, epochs=epochs,
                             use_ratings=True)  # fmt: skip
    model.train(data, options)
    left = np.zeros((ratings.shape[0], size), np.float32)
    right = np.zeros((ratings.shape[1], size), np.float32)
    left[model.users.ids()], right[model.items.ids()] = model.user_embeddings, model.item_embeddings
    return Fitted(lambda history, users: best(history, lambda who: left[users[who]] @ right.T), right.nbytes)


def lenskit_ease(ratings: Matrix, regularization: float) -> Fitted:
    """Fit EASE with LensKit, which takes choices without weights."""
    from lenskit.knn import EASEScorer

    x = weigh(ratings, "likes").tocoo()
    data, options = lenskit_data(x.row, x.col, x.data)
    model = EASEScorer(regularization=regularization)
    model.train(data, options)
    item_map, ids = np.zeros((ratings.shape[1],) * 2, np.float32), model.items.ids()
    item_map[np.ix_(ids, ids)] = model.weights
    return by_map(item_map, "likes")


SVD, MYFM, LENSKIT = {"n_factors": 100}, {"rank": 20}, {"epochs": 20, "user_embeddings": "prefer"}
ITEMS = {"user_based": False, "name": "pearson_baseline"}
SURPRISE = {kind: partial(surprise_models, kind=kind) for kind in ("BaselineOnly", "CoClustering", "SVD", "KNNBaseline")}
RATERS = {
    "accams": Rater("ACCAMS()", "", accams_models),
    "accams-stopped": Rater("ACCAMS, early stopping", "", partial(
        accams_models, n_stencils=300, learning_rate=0.1, early_stopping=True, shrinkage=5.0)),
    "bayesian": Rater("BayesianACCAMS()", "", bayesian_models, quick={"n_sweeps": 20}),
    "baseline": Rater("Surprise BaselineOnly", "surprise", SURPRISE["BaselineOnly"]),
    "coclustering": Rater("Surprise CoClustering", "surprise", SURPRISE["CoClustering"],
        {"100k": {"n_cltr_u": 2, "n_cltr_i": 2}, "1m": {"n_cltr_u": 10, "n_cltr_i": 10}},
        grid=[{"n_cltr_u": k, "n_cltr_i": k} for k in (2, 3, 5, 10, 15)]),
    "knn": Rater("Surprise KNNBaseline", "surprise", partial(SURPRISE["KNNBaseline"], sim_options=ITEMS),
        {"100k": {"k": 40}, "1m": {"k": 40}}, grid=grid(k=(20, 40, 80))),
    "svd": Rater("Surprise SVD", "surprise", SURPRISE["SVD"],
        {"100k": SVD | {"n_epochs": 100, "reg_all": 0.1}, "1m": SVD | {"n_epochs": 40, "reg_all": 0.05}}),
    "lenskit": Rater("LensKit BiasedMF (ALS)", "lenskit", lenskit_models,
        {"100k": LENSKIT | {"embedding_size": 50, "regularization": 0.15},
         "1m": LENSKIT | {"embedding_size": 50, "regularization": 0.1}},
        grid=[LENSKIT | each for each in grid(
            embedding_size=(20, 50), regularization=(0.05, 0.075, 0.1, 0.15, 0.2))]),
    "myfm": Rater("myFM", "myfm", myfm_models,
        {"100k": MYFM | {"n_iter": 300, "n_kept_samples": 200}, "1m": MYFM | {"n_iter": 100, "n_kept_samples": 66}},
        quick={"n_iter": 20, "n_kept_samples": 10}),
}  # fmt: skip
LISTS: dict[str, Lister] = {
    "ease": Lister(EASE, "", {"100k": {"penalty": 200.0}, "1m": {"penalty": 800.0}}),
    "ease-dropout": Lister(DROPOUT, "", {"100k": {"dropout": 0.0}}),
    "lenskit-ease": Lister(Method("EASE (LensKit), likes alone", lenskit_ease, {"regularization": 200.0},
        {"regularization": (25.0, 50.0, 100.0, 200.0, 400.0, 800.0, 1600.0)}), "lenskit",
        {"1m": {"regularization": 800.0}}),
    "item-100": Lister(ours.sized(100_000)),
    "item-400": Lister(ours.sized(400_000)),
    "implicit-als": Lister(ALS, "implicit", {
        "100k": {"factors": 32, "regularization": 20.0, "iterations": 30},
        "1m": {"factors": 512, "alpha": 1.5, "iterations": 30}}),
    "implicit-als-64": Lister(replace(ALS, name="ALS (implicit), 64 factors", grid={}), "implicit", {
        "100k": {"factors": 64, "regularization": 20.0}, "1m": {"factors": 64, "alpha": 1.5}}),
    "lenskit-als": Lister(Method("ALS (LensKit)", lenskit_als,
        {"input": "weighted", "size": 64, "weight": 4.0, "regularization": 30.0, "epochs": 15},
        {"input": ("likes", "weighted"), "regularization": (1.0, 3.0, 10.0, 30.0, 50.0, 100.0, 200.0),
         "weight": (1.0, 2.0, 4.0, 8.0, 16.0, 40.0), "size": (16, 32, 64, 128)}), "lenskit"),
    "implicit-knn": Lister(NEIGHBOURS, "implicit", {
        "100k": {"input": "weighted", "kind": "Cosine", "K": 10}, "1m": {"input": "weighted"}}),
    "popularity": Lister(POPULARITY),
}  # fmt: skip


def timed(rater: Rater, part: Split, seed: int, setting: Setting) -> Iterator[tuple[Model, float]]:
    """Yield the models of one fit, each with the seconds until it was there."""
    spent, began = 0.0, perf_counter()
    for model in rater.models(part, seed, **setting):
        spent += perf_counter() - began
        yield model, spent
        began = perf_counter()


def rated(name: str, seed: int, rater: Rater, quick: bool) -> Iterator[list[Any]]:
    """Yield lines with label, error, seconds to fit and to predict, and bytes."""
    part, setting = split(f"ml-{name}", seed), {**rater.settings.get(name, {}), **(rater.quick if quick else {})}
    for place, (model, seconds) in enumerate(timed(rater, part, seed, setting)):
        times = [seconds]
        while len(times) < REPEATS and sum(times) < CHEAP:
            times.append([spent for _, spent in timed(rater, part, seed, setting)][place])
        began = perf_counter()
        error = part.rmse(model.predict(part.test.rows, part.test.cols))
        asked = perf_counter() - began
        with TemporaryDirectory() as folder:
            path = Path(folder, "model")
            model.save(path)
            line = [rater.label + model.label, f"{error:.4f}", median(times), asked, path.stat().st_size]
        say("  ", *line)
        yield line


def listed(task: Task, method: Method) -> list[Any]:
    """Return a line with label, measures, seconds to fit and to make the lists, and bytes."""
    times: list[float] = []
    while not times or (len(times) < REPEATS and sum(times) < CHEAP):
        began = perf_counter()
        fitted = method.fitted(task, method.start)
        times.append(perf_counter() - began)
    began = perf_counter()
    lists = fitted.lists(task.history, task.users)
    asked = perf_counter() - began
    task.check(lists)
    found = task.measure(lists)
    measures = [f"{found[each]:.4f}" for each in ("NDCG@10", "recall@10")]
    line = [method.name, *measures, median(times), asked, fitted.n_bytes]
    say("  ", *line)
    return line


def page(header: Sequence[str], lines: Sequence[list[Any]]) -> str:
    """Return a table whose lines end in seconds to fit, seconds to ask, and bytes."""
    rows = []
    for *cells, seconds, asked, size in lines:
        times = f"{float(f'{seconds / lines[0][-3]:.2g}'):g}"
        told = f"{size / 1e6:.2g} MB" if size >= 1e6 else f"{size / 1000:.0f} KB"
        rows.append([*cells, f"{seconds:.1f}", times, f"{asked:.1f}", told])
    return table([*header, "seconds", "times", "seconds to ask", "bytes"], rows)


def tuned(name: str, rater: Rater) -> Setting:
    """Return the setting that predicts best what is in no test part."""
    part, errors = tuning_split(f"ml-{name}"), []
    for setting in rater.grid:
        model = next(rater.models(part, 0, **setting))
        errors.append(part.rmse(model.predict(part.test.rows, part.test.cols)))
        say(f"  {rater.label}, {as_text(dict(setting))}: {errors[-1]:.4f}")
    return rater.grid[int(np.argmin(errors))]


def usable() -> Iterator[str]:
    """Yield the libraries that can be imported, and say how to get the others."""
    warnings.simplefilter("ignore")  # each has some of its own
    for name, package in PACKAGES.items():
        try:
            importlib.import_module(name)
            yield name
        except ImportError as error:
            say(f"{name} is left out ({error}): pip install {package}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=["100k", "1m"], default=["100k", "1m"])
    parser.add_argument("--methods", nargs="+", choices=[*RATERS, *LISTS], default=[*RATERS, *LISTS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="MovieLens 100K with short fits")
    parser.add_argument("--tune", action="store_true", help="search for settings instead, and print them")
    given = parser.parse_args()
    use_local_data()
    os.environ.setdefault("TQDM_DISABLE", "1")
    missing = set(PACKAGES) - set(usable())
    raters = [r for key, r in RATERS.items() if key in given.methods and r.library not in missing]
    listers = [x for key, x in LISTS.items() if key in given.methods and x.library not in missing]
    for name in ["100k"] if given.quick else given.sets:
        whole = as_matrix(datasets.movielens(name).observations)
        task = leave_ten_out(whole, given.seed)
        methods = [replace(x.method, start={**x.method.start, **x.settings.get(name, {})}) for x in listers]
        if given.tune:
            for rater in (r for r in raters if r.grid):
                say(f"{name}, {rater.label}: {as_text(dict(tuned(name, rater)))}")
            held = leave_ten_out(task.ratings, given.seed + 1)
            for method in (m for m in methods if m.grid):
                say(f"{name}, {method.name}: {as_text(choose(method, held, say=say))}")
            continue
        if raters:
            lines = [line for rater in raters for line in rated(name, given.seed, rater, given.quick)]
            say(f"\n## MovieLens {name.upper()}: ratings\n\n" + page(["model", "test RMSE"], lines))
        if methods:
            lines = [listed(task, method) for method in methods]
            say(f"\n## MovieLens {name.upper()}: lists\n\n" + page(["model", "NDCG@10", "recall@10"], lines))
    say("\n" + machine(*(PACKAGES[name].split()[0] for name in PACKAGES if name not in missing)))


if __name__ == "__main__":
    main()
