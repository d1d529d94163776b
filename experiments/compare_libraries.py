"""Compare with other libraries on MovieLens: ratings and lists, by accuracy, by seconds and by bytes.

Ratings: test RMSE on the 90:10 split of a seed, that of the other tables; bytes are those of the file that a library
writes, or of its pickle where it has no format of its own. Lists: ten likes of each user are to be found, the protocol
leave-ten-out of `lists/protocols.py`; bytes are those of ours as saved, and of the numbers that a list needs of the
others (`lists/rivals.py`), whose files are larger.

Seconds are those of a fit from arrays in memory, on two cores (Surprise and myFM use one): the median of three where
they are few. *times* is their ratio to the first line's, which is what to compare where other work runs beside.
Settings of the others are in `SETTINGS`, most of them chosen by `--tune`, of a few, on ratings (likes) that are in no
test part; docs/comparison.md says which are not. Ours run with their defaults. What is not installed is left out.

Run: python experiments/compare_libraries.py [--sets 100k 1m] [--methods NAME ...] [--seed 0] [--quick] [--tune]
(needs pip install implicit scikit-surprise lenskit myfm pandas; myFM 0.4 also 'setuptools<81')
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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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
Setting = dict[str, Any]
PACKAGES = {"surprise": "scikit-surprise", "lenskit": "lenskit", "myfm": "myfm 'setuptools<81'", "implicit": "implicit"}
SMALL = 50_000  # bytes
REPEATS, CHEAP = 3, 10.0  # fits of which the median is taken, while they have taken less than so many seconds
POPULARITY, *_, NEIGHBOURS, ALS = RIVALS


class Model(NamedTuple):
    """A fitted model: its predictions at positions, how it is saved, and how a smaller one is made of it."""

    predict: Callable[[np.ndarray, np.ndarray], np.ndarray]
    save: Callable[[Path], object]
    smaller: Callable[[], Model] | None = None


def of_pairs(model: Any, smaller: Callable[[], Model] | None = None) -> Model:
    """Return a model of ours as one that takes positions."""
    return Model(lambda rows, cols: model.predict(np.stack([rows, cols], axis=1)), model.save, smaller)


def pickled(model: Any) -> Callable[[Path], object]:
    """Return what saves a model as a pickle."""
    return lambda path: path.write_bytes(pickle.dumps(model, pickle.HIGHEST_PROTOCOL))


def fit_accams(part: Split, seed: int, **setting: Any) -> Model:
    return of_pairs(ACCAMS(random_state=seed, verbose=False, **setting).fit(part.observations))


def fit_bayesian(part: Split, seed: int, **setting: Any) -> Model:
    model = BayesianACCAMS(random_state=seed, verbose=False, **setting).fit(part.observations)
    return of_pairs(model, lambda: of_pairs(model.compress(SMALL, verbose=False)))


def fit_surprise(part: Split, seed: int, kind: str, **setting: Any) -> Model:
    import surprise

    entries = [(u, i, r, None) for u, i, r in zip(*(x.tolist() for x in part.train[:3]), strict=True)]
    seeded = {"random_state": seed} if kind in ("SVD", "CoClustering") else {}
    model = getattr(surprise, kind)(verbose=False, **seeded, **setting)
    model.fit(surprise.Dataset(surprise.Reader()).construct_trainset(entries))

    def predict(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        pairs = zip(rows.tolist(), cols.tolist(), strict=True)
        return np.array([model.predict(u, i, clip=False).est for u, i in pairs])

    return Model(predict, lambda path: surprise.dump.dump(path, algo=model))


def fit_myfm(part: Split, seed: int, rank: int, **sampling: Any) -> Model:
    from myfm import MyFMRegressor

    X, _, shapes = one_hot(part.train, part.test)
    model = MyFMRegressor(rank=rank, random_seed=seed)
    model.fit(X, part.train.values, group_shapes=shapes, **sampling)

    def predict(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        asked = part.test._replace(rows=rows, cols=cols)
        return np.asarray(model.predict(one_hot(part.train, asked)[1], n_workers=2))

    return Model(predict, pickled(model))


def fit_lenskit(part: Split, seed: int, **setting: Any) -> Model:
    import pandas as pd
    from lenskit.als import BiasedMFScorer
    from lenskit.batch import predict as predict_all
    from lenskit.data import ItemListCollection
    from lenskit.pipeline import predict_pipeline

    model = predict_pipeline(BiasedMFScorer(**setting, user_embeddings="prefer"))
    model.train(*lenskit_data(*part.train[:3], seed))

    def predict(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        asked = pd.DataFrame({"user_id": rows, "item_id": cols})
        found = predict_all(model, ItemListCollection.from_df(asked, "user_id"), n_jobs=1).to_df()
        return asked.merge(found, how="left", on=["user_id", "item_id"])["score"].to_numpy(np.float64)

    return Model(predict, pickled(model))


def lenskit_data(rows: np.ndarray, cols: np.ndarray, values: np.ndarray, seed: int = 0) -> tuple[Any, Any]:
    """Return ratings as a data set of LensKit, and how to train with them."""
    import pandas as pd
    from lenskit.data import from_interactions_df
    from lenskit.training import TrainingOptions

    frame = pd.DataFrame({"user_id": rows, "item_id": cols, "rating": values.astype(np.float64)})
    return from_interactions_df(frame), TrainingOptions(rng=seed)


def lenskit_als(ratings: Matrix, input: str, size: int, weight: float, regularization: float, epochs: int) -> Fitted:
    """Factorise choices with LensKit; the weights of the input are its `use_ratings`."""
    from lenskit.als import ImplicitMFScorer

    x = weigh(ratings, input).tocoo()
    how: Setting = {"weight": weight, "regularization": regularization, "epochs": epochs, "use_ratings": True}
    model: Any = ImplicitMFScorer(embedding_size=size, **how)
    model.train(*lenskit_data(x.row, x.col, x.data))
    left, right = (np.zeros((n, size), np.float32) for n in ratings.shape)
    left[model.users.ids()], right[model.items.ids()] = model.user_embeddings, model.item_embeddings
    return Fitted(lambda history, users: best(history, lambda who: left[users[who]] @ right.T), right.nbytes)


def lenskit_ease(ratings: Matrix, regularization: float) -> Fitted:
    """Fit EASE with LensKit, which takes choices without weights."""
    from lenskit.knn import EASEScorer

    x = weigh(ratings, "likes").tocoo()
    model: Any = EASEScorer(regularization=regularization)
    model.train(*lenskit_data(x.row, x.col, x.data))
    item_map, ids = np.zeros((ratings.shape[1],) * 2, np.float32), model.items.ids()
    item_map[np.ix_(ids, ids)] = model.weights
    return by_map(item_map, "likes")


STOPPED: Setting = {"n_stencils": 300, "learning_rate": 0.1, "early_stopping": True, "shrinkage": 5.0}
ITEMS: Setting = {"user_based": False, "name": "pearson_baseline"}
RATERS: dict[str, tuple[str, Callable[..., Model]]] = {
    "accams": ("`ACCAMS()`", fit_accams),
    "accams-stopped": ("`ACCAMS`, early stopping", partial(fit_accams, **STOPPED)),
    "bayesian": ("`BayesianACCAMS()`", fit_bayesian),
    "surprise-baseline": ("BaselineOnly (Surprise)", partial(fit_surprise, kind="BaselineOnly")),
    "surprise-coclustering": ("CoClustering (Surprise)", partial(fit_surprise, kind="CoClustering")),
    "surprise-knn": ("KNNBaseline (Surprise)", partial(fit_surprise, kind="KNNBaseline", sim_options=ITEMS)),
    "surprise-svd": ("SVD (Surprise)", partial(fit_surprise, kind="SVD")),
    "lenskit-mf": ("BiasedMF by ALS (LensKit)", partial(fit_lenskit, epochs=20)),
    "myfm": ("Bayesian MF (myFM)", partial(fit_myfm, rank=20)),
}
LISTS = {
    "ease": EASE,
    "ease-dropout": DROPOUT,
    "lenskit-ease": Method("EASE (LensKit)", lenskit_ease, {"regularization": 200.0}, {
        "regularization": tuple(25.0 * 2.0**step for step in range(8))}),
    "item-100": ours.sized(100_000),
    "item-400": ours.sized(400_000),
    "implicit-als": ALS,
    "implicit-als-64": replace(ALS, name="ALS (implicit), 64 factors", grid={}),
    "lenskit-als": Method("ALS (LensKit)", lenskit_als,
        {"input": "weighted", "size": 64, "weight": 4.0, "regularization": 30.0, "epochs": 15},
        {"input": ("likes", "weighted"), "regularization": (1.0, 3.0, 10.0, 30.0, 50.0, 100.0, 200.0),
         "weight": (1.0, 2.0, 4.0, 8.0, 16.0, 40.0), "size": (16, 32, 64, 128)}),
    "implicit-knn": NEIGHBOURS,
    "popularity": POPULARITY,
}  # fmt: skip
SETS = ("100k", "1m")
SETTINGS: dict[str, tuple[Setting, Setting]] = {  # by set; for lists, what differs from where a search begins
    "surprise-coclustering": ({"n_cltr_u": 2, "n_cltr_i": 2}, {"n_cltr_u": 10, "n_cltr_i": 10}),
    "surprise-knn": ({"k": 40}, {"k": 40}),
    "surprise-svd": ({"n_epochs": 100, "reg_all": 0.1}, {"n_epochs": 40, "reg_all": 0.05}),  # by accuracy/libraries.py
    "lenskit-mf": ({"embedding_size": 50, "regularization": 0.15}, {"embedding_size": 100, "regularization": 0.075}),
    "myfm": ({"n_iter": 300, "n_kept_samples": 200}, {"n_iter": 100, "n_kept_samples": 66}),
    "ease": ({"penalty": 200.0}, {"penalty": 800.0}),
    "ease-dropout": ({"dropout": 0.0}, {}),
    "lenskit-ease": ({}, {"regularization": 800.0}),
    "lenskit-als": ({}, {"weight": 2.0, "regularization": 50.0}),
    "implicit-als": ({"factors": 32, "regularization": 20.0, "iterations": 30}, {"factors": 512, "alpha": 1.5}),
    "implicit-als-64": ({"factors": 64, "regularization": 20.0}, {"factors": 64, "alpha": 1.5}),
    "implicit-knn": ({"input": "weighted", "kind": "Cosine", "K": 10}, {"input": "weighted"}),
}
QUICK: dict[str, Setting] = {"bayesian": {"n_sweeps": 20}, "myfm": {"n_iter": 20, "n_kept_samples": 10}}
TRIED: dict[str, Sequence[Setting]] = {
    "surprise-coclustering": [{"n_cltr_u": k, "n_cltr_i": k} for k in (2, 3, 5, 10, 15)],
    "surprise-knn": grid(k=(20, 40, 80)),
    "lenskit-mf": grid(embedding_size=(20, 50, 100), regularization=(0.075, 0.1, 0.15)),
}


def compile_kernels() -> None:
    """Fit our models to MovieLens 100K once, quickly: what Numba compiles is kept, and in no fit that is timed."""
    part = split("ml-100k", 0)
    fit_accams(part, 0, **STOPPED | {"n_stencils": 5})
    small = fit_bayesian(part, 0, n_sweeps=4).smaller
    assert small is not None
    small()
    ours.item_accams(as_matrix(part.observations), 20_000, penalty=200.0, dropout=0.5)


def often(fit: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a fit gives, and its median seconds."""
    times: list[float] = []
    while not times or (len(times) < REPEATS and sum(times) < CHEAP):
        began = perf_counter()
        model = fit()
        times.append(perf_counter() - began)
    return model, median(times)


def rated(label: str, part: Split, fit: Callable[[], Model]) -> Iterator[list[Any]]:
    """Yield a line with error, seconds and bytes, and one of a smaller model."""
    model, seconds = often(fit)
    error = part.rmse(model.predict(part.test.rows, part.test.cols))
    with TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        size = Path(folder, "model").stat().st_size
    say(f"  {label}: {error:.4f}, {seconds:.1f} s")
    yield [label, f"{error:.4f}", seconds, size]
    if model.smaller:
        yield from rated(f"the same compressed to {SMALL // 1000} KB", part, model.smaller)


def listed(task: Task, method: Method) -> list[Any]:
    """Return a line with measures, seconds and bytes."""
    fitted, seconds = often(lambda: method.fitted(task, method.start))
    lists = fitted.lists(task.history, task.users)
    task.check(lists)
    found = task.measure(lists)
    say(f"  {method.name}: {found['NDCG@10']:.4f}, {seconds:.1f} s")
    return [method.name, f"{found['NDCG@10']:.4f}", f"{found['recall@10']:.4f}", seconds, fitted.n_bytes]


def page(title: str, header: Sequence[str], lines: Sequence[list[Any]]) -> str:
    """Return a table of lines that end in seconds and bytes."""
    rows = []
    for *cells, seconds, size in lines:
        told = f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{size / 1e3:.0f} KB"
        rows.append([*cells, f"{seconds:.1f}", f"{float(f'{seconds / lines[0][-2]:.2g}'):g}", told])
    return f"\n## {title}\n\n{table([*header, 'seconds', 'times', 'bytes'], rows)}\n"


def tune(name: str, raters: Sequence[str], methods: Sequence[Method], task: Task) -> None:
    """Print the settings that predict best what is in no test part."""
    part, held = tuning_split(f"ml-{name}"), leave_ten_out(task.ratings, 1)
    for key in (key for key in raters if key in TRIED):
        for setting in TRIED[key]:
            error = part.rmse(RATERS[key][1](part, 0, **setting).predict(part.test.rows, part.test.cols))
            say(f"{name}, {key}, {as_text(setting)}: {error:.4f}")
    for method in (method for method in methods if method.grid):
        say(f"{name}, {method.name}: {as_text(choose(method, held, say=say))}")


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
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--methods", nargs="+", choices=[*RATERS, *LISTS], default=[*RATERS, *LISTS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="MovieLens 100K with short fits")
    parser.add_argument("--tune", action="store_true", help="search for settings instead, and print them")
    given = parser.parse_args()
    use_local_data()
    os.environ.setdefault("TQDM_DISABLE", "1")
    there = set(usable())
    left_out = (PACKAGES.keys() - there) | ({"item-400"} if given.quick else set())
    asked = [key for key in given.methods if not {key, key.split("-")[0]} & left_out]
    raters = [key for key in RATERS if key in asked]
    compile_kernels()
    for name in ["100k"] if given.quick else given.sets:
        settings = {key: each[SETS.index(name)] for key, each in SETTINGS.items()}
        task = leave_ten_out(as_matrix(datasets.movielens(name).observations), given.seed)
        methods = [replace(m, start={**m.start, **settings.get(key, {})}) for key, m in LISTS.items() if key in asked]
        if given.tune:
            tune(name, raters, methods, task)
            continue
        part, lines = split(f"ml-{name}", given.seed), list[list[Any]]()
        for key in raters:
            setting = settings.get(key, {}) | (QUICK.get(key, {}) if given.quick else {})
            lines += rated(RATERS[key][0], part, partial(RATERS[key][1], part, given.seed, **setting))
        if raters:
            say(page(f"MovieLens {name.upper()}: ratings", ["model", "test RMSE"], lines))
        if methods:
            lines = [listed(task, method) for method in methods]
            say(page(f"MovieLens {name.upper()}: lists", ["model", "NDCG@10", "recall@10"], lines))
    say(machine(*(package.split()[0] for name, package in PACKAGES.items() if name in there)))


if __name__ == "__main__":
    main()
