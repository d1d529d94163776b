"""Everyone who predicts ratings here, ours and rivals: how each is fitted, tuned, and weighed."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from accams import ACCAMS, BayesianACCAMS
from accams.baselines import biases, column_means
from accams.model.size import factor_bits, stencil_bits
from paper.runs import UnavailableError
from paper.sets import Split
from rivals import ALS, BPMF, DFC, LLORMA, SGD, quantise

Setting = dict[str, Any]
Predict = Callable[[np.ndarray, np.ndarray], np.ndarray]
LONG = 5_000_000  # ratings beyond which the slow ones are not run


class Line(NamedTuple):
    """One model that a fit gives: how it is called, its bytes as the paper counts them and on disk, its predictions."""

    method: str
    setting: str
    bytes: float
    predict: Predict
    file_bytes: int | None = None
    train: bool = True  # whether its training error can be told
    extra: Setting | None = None  # what else is worth a column


@dataclass(frozen=True)
class Method:
    """One fit.

    Attributes
    ----------
    lines : callable
        From a split, a seed and a setting to what comes out.
    seconds : float
        About, for 100,000 ratings on two cores.
    setting : dict
    grid : tuple of dict
        Settings that are tried on a validation part instead.
    trial : dict
        What is different while they are tried, to save time.
    family : str, optional
        The method that has the same settings in its grid; its trials are shared.
    most : int
        Ratings that it is run with at most.
    """

    lines: Callable[[Split, int, Setting], Iterator[Line]]
    seconds: float = 1.0
    setting: Setting = field(default_factory=dict)
    grid: tuple[Setting, ...] = ()
    trial: Setting = field(default_factory=dict)
    family: str = ""
    most: int = 10**9


def text(setting: Setting) -> str:
    return ", ".join(f"{name}={value}" for name, value in setting.items())


# ours


def accams_lines(part: Split, seed: int, setting: Setting) -> Iterator[Line]:
    """The paper's algorithm, or ours as it comes; `prefixes` are numbers of stencils that are looked at on the way."""
    k, s = setting["k"], setting["s"]
    rate, more = setting.get("rate", 1.0), setting.get("more", {})
    model = ACCAMS(s, k, learning_rate=rate, random_state=seed, verbose=False, **more).fit(part.observations).stencils_
    name = "one co-clustering" if s == 1 else "ACCAMS" if rate == 1.0 else "ACCAMS, as it comes"
    name = "ACCAMS, early stopping" if more else name
    for l in setting.get("prefixes", (len(model.stencils),)):
        some = replace(model, stencils=model.stencils[:l])
        yield Line(name, f"k={k}" if s == 1 else f"k={k}, s={l}", some.bits / 8, some.predict, some.size.bytes)


def bayesian_lines(part: Split, seed: int, setting: Setting) -> Iterator[Line]:
    """The mean of many draws, one draw, and what is distilled from the mean."""
    s = setting.get("s")
    if setting.get("paper"):
        name, model = "bACCAMS, paper's settings", BayesianACCAMS.paper(n_stencils=s, random_state=seed, verbose=False)
    else:
        name, model = "bACCAMS, ours", BayesianACCAMS(n_stencils=s or "auto", random_state=seed, verbose=False)
    model.fit(part.observations)
    posterior = model.posterior_
    one = model.stencils_
    called = f"k={max(len(each.template) for each in one.stencils)}, s={len(one.stencils)}"
    yield Line(name, f"{called}, mean of {len(posterior)} draws", len(posterior) * one.bits / 8, posterior.predict)
    yield Line(f"{name}, one draw", called, one.bits / 8, one.predict, one.size.bytes)
    n = len(part.train.values) + len(part.test.values)
    for size in (1000 * max(1, round(share * n / 1000)) for share in setting.get("distil", ())):
        small = model.distill(size, verbose=False)
        yield Line(f"{name}, distilled", f"{size // 1000} KB", small.size.bytes, small.predict, small.size.bytes)


# libraries


def surprise_lines(part: Split, seed: int, setting: Setting) -> Iterator[Line]:
    """SVD++ and CoClustering of Surprise."""
    surprise = library("surprise", "scikit-surprise")
    chosen = dict(setting)
    kind = chosen.pop("kind")
    train = part.train
    entries = [(u, i, r, None) for u, i, r in zip(*(x.tolist() for x in train[:3]), strict=True)]
    extra = {"cache_ratings": True} if kind == "SVDpp" else {}
    model = getattr(surprise, kind)(verbose=False, random_state=seed, **extra, **chosen)
    model.fit(surprise.Dataset(surprise.Reader()).construct_trainset(entries))

    def predict(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        return np.array(
            [model.predict(u, i, clip=False).est for u, i in zip(rows.tolist(), cols.tolist(), strict=True)]
        )

    m, n = train.shape
    if kind == "SVDpp":
        yield Line("SVD++ (Surprise)", f"R={model.n_factors}", factor_bits((m, n), model.n_factors) / 8, predict)
    else:  # labels, block means, and the mean of each row, column and cluster
        k = model.n_cltr_u
        size = (stencil_bits((m, n), (k, k)) + 32 * (m + n + 2 * k)) / 8
        yield Line("CoClustering (Surprise)", f"k={k}, with means of rows and columns", size, predict)


def myfm_lines(part: Split, seed: int, setting: Setting) -> Iterator[Line]:
    """Bayesian matrix factorisation of myFM."""
    myfm = library("myfm", "myfm")
    from scipy.sparse import hstack, identity

    units = [identity(size, format="csr") for size in part.train.shape]
    rank, kept = setting["rank"], setting["kept"]
    model = myfm.MyFMRegressor(rank=rank, random_seed=seed)
    one_hot = hstack([unit[of] for unit, of in zip(units, part.train[:2], strict=True)], "csr")
    shapes = [*part.train.shape]
    model.fit(one_hot, part.train.values, n_iter=kept * 3 // 2, n_kept_samples=kept, group_shapes=shapes)

    def predict(rows: np.ndarray, cols: np.ndarray) -> np.ndarray:
        return np.asarray(model.predict(hstack([units[0][rows], units[1][cols]], "csr")))

    size = kept * (factor_bits(part.train.shape, rank) + factor_bits(part.train.shape, 1)) / 8
    yield Line("Bayesian MF (myFM)", f"R={rank}, mean of {kept} draws", size, predict)


def library(name: str, package: str) -> Any:
    """A library of the extra `bench`, or a sentence that says what to install."""
    if importlib.util.find_spec(name) is None:
        raise UnavailableError(f"{package} is not installed: pip install {package}")
    os.environ.setdefault("TQDM_DISABLE", "1")  # there is one progress bar, and it is ours
    return importlib.import_module(name)


# rivals of our own making


def baseline_lines(part: Split, seed: int, setting: Setting) -> Iterator[Line]:
    m, n = part.train.shape
    yield Line("item means", "", 4.0 * n, column_means(part.observations).predict)
    yield Line("biases", "", 4.0 * (m + n), biases(part.observations).predict)


def factor_lines(name: str, kind: type[ALS] | type[SGD]) -> Callable[[Split, int, Setting], Iterator[Line]]:
    """A factorisation, and the same in 8 and 4 bits."""

    def lines(part: Split, seed: int, setting: Setting) -> Iterator[Line]:
        model = kind(**setting).fit(part.train, seed=seed)
        called = f"R={setting['rank']}"
        yield Line(name, called, model.n_bytes, model.predict)
        for bits in (8, 4):
            small = quantise(model, bits)
            yield Line(f"{name}, {bits} bits", called, small.n_bytes, small.predict)

    return lines


def bpmf_lines(part: Split, seed: int, setting: Setting) -> Iterator[Line]:
    test = part.test
    model = BPMF(**setting).fit(part.train, (test.rows, test.cols), seed=seed)
    yield Line("Bayesian MF (BPMF)", f"R={setting['rank']}, mean of {model.n_kept} draws", model.n_bytes, model.predict,
               train=False)  # fmt: skip


def dfc_lines(part: Split, seed: int, setting: Setting) -> Iterator[Line]:
    """One way to combine, as an ensemble, which is what the paper's table has; `parts` of 1 is what is divided."""
    rank, parts, method = setting["rank"], setting["parts"], setting["method"]
    base = ALS(rank, ridge=setting["ridge"], bias_ridge=setting["bias_ridge"])
    model = DFC(parts, method, base=base).fit(part.train, seed=seed)
    name = "what DFC divides" if parts == 1 else f"DFC-{method.capitalize()}"
    called = f"R={rank}" + (f", {parts} parts" if parts > 1 else "")
    yield Line(name, called, model.n_bytes, model.predict, extra={"side_by_side": model.parallel_seconds})


def llorma_lines(part: Split, seed: int, setting: Setting) -> Iterator[Line]:
    """Sizes by the paper's convention: two factorisations for each row and column."""
    rank, anchors = setting["rank"], setting["anchors"]
    local = ALS(rank, 10, ridge=setting["ridge"], bias_ridge=2.0)
    model = LLORMA(anchors, local=local).fit(part.train, seed=seed)
    size = 2 * factor_bits(part.train.shape, rank) / 8
    yield Line("LLORMA", f"R={rank}, {anchors} anchors", size, model.predict, extra={"used_bytes": model.used_bytes})


def grid(**options: tuple[Any, ...]) -> tuple[Setting, ...]:
    """Every combination."""
    from itertools import product

    return tuple(dict(zip(options, values, strict=True)) for values in product(*options.values()))
