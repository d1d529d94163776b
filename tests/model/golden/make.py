"""How the model files in this folder were made, and what they predicted then.

Every later version must read them, so they are never made again: for a new format, add files under other names.
Run with `python tests/model/golden/make.py`; a file that is there already is left alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

import accams

FOLDER = Path(__file__).parent
EXPECTED = FOLDER / "predictions.json"
LEVELS = [0.05, 0.5, 0.95]
FORMAT = 2 if hasattr(accams, "Model") else 1  # that this version of accams writes


def ratings() -> np.ndarray:
    """Half stars of 24 users and 16 films, a third of them missing; one user has rated nothing."""
    random = np.random.default_rng(0)
    matrix = 3.0 + np.add.outer(random.normal(size=24), random.normal(size=16)) + random.normal(size=(24, 16)) / 2
    matrix = np.clip(np.rint(2 * matrix) / 2, 0.5, 5.0)
    matrix[random.random(matrix.shape) < 0.33] = np.nan
    matrix[5] = np.nan
    return matrix


def stencil_sum() -> accams.StencilSum:
    """Templates of different sizes, rows and columns never seen, effects."""
    random, shape = np.random.default_rng(1), (40, 30)
    both = [random.normal(size=size).astype(np.float32) for size in shape]
    model = accams.StencilSum(shape, 3.25, (), np.array([3, 39]), np.array([0]), *both)
    for k in ((3, 2), (1, 5), (12, 7), (2, 2)):
        labels = (np.minimum(random.geometric(0.3, size) - 1, a - 1) for a, size in zip(k, shape, strict=True))
        model = model.append(random.normal(size=k), *labels)
    return model


def named() -> tuple[accams.ACCAMS, Any]:
    """A model of users and films by name, and some pairs."""
    i, j = np.nonzero(~np.isnan(ratings()))
    pairs = [(f"usér {a}", f"film № {b}") for a, b in zip(i, j, strict=True)]
    model = accams.ACCAMS(4, (4, 3), random_state=0).fit(pairs, ratings()[i, j])
    return model, [*pairs[::17], ("nobody", pairs[0][1]), (pairs[0][0], "nothing"), ("nobody", "nothing")]


def posterior() -> tuple[accams.BayesianACCAMS, Any]:
    """With row noise, continuous effects and label probabilities; positions as ids."""
    model = accams.BayesianACCAMS(
        3, (4, 3), noise="sampled", row_noise=8.0, effects="continuous", rao_blackwell=True, n_chains=2, n_sweeps=4,
        n_burn_in=2, thin=1, random_state=0,
    ).fit(ratings())  # fmt: skip
    return model, [(i, j) for i in (0, 5, 11, 23, 99) for j in (0, 7, 15, 99)]


def table(values: np.ndarray) -> Any:
    """Stored ratings as a table of integer ids."""
    import pandas as pd

    i, j = np.nonzero(~np.isnan(values))
    return pd.DataFrame({"userId": 7 * i + 3, "movieId": j - 4, "rating": values[i, j]})


def halves() -> tuple[Any, Any, Any]:
    """Ratings to fit, ratings that are held out, and pairs of ids to predict: known ones and others."""
    known = table(ratings())
    held = known.index % 6 == 5
    return known[~held], known[held], [(i, j) for i in (3, 38, 52, 1000) for j in (-4, 0, 11, 99)]


def zeros() -> tuple[accams.ACCAMS, Any]:
    """Cells that are not stored are zeros of small weight."""
    stored = csr_array(np.nan_to_num(ratings()))
    cells = accams.Observations.from_sparse(stored, zeros="observed", zero_weight=0.25)
    return accams.ACCAMS(3, (4, 3), random_state=0).fit(cells), [(i, j) for i in (0, 5, 23) for j in (0, 7, 15)]


def of_format_1() -> Iterator[tuple[str, Any, Any, dict[str, Any]]]:
    """Models whose files 0.1.0 wrote, by its own names; with a later version they are not made again."""
    (text, text_pairs), (draws, draw_pairs), one = named(), posterior(), stencil_sum()
    cells = [(i, j) for i in (-1, 0, 3, 20, 39) for j in (-1, 0, 1, 29)]
    yield "sum-entropy", one, cells, {"coding": "entropy"}
    yield "sum-packed", one, cells, {"coding": "packed"}
    yield "sum-int8", one.rounded("int8"), cells, {}
    yield "accams-text", text, text_pairs, {}
    yield "bayesian", draws, draw_pairs, {}
    yield "accams-alike", text, text_pairs, {}  # as the first of these, templates on a grid and one shape for all
    yield "bayesian-alike", draws, draw_pairs, {}
    yield "accams-seen", text, text_pairs, {"seen": True}  # and which cells were observed
    train, held, pairs = halves()
    back = accams.ACCAMS(3, (4, 3), n_relearn=1, clip=(1.0, 4.5), random_state=0).fit(train)
    back.quality_ = back.quality(held)
    yield "accams-evaluated", back, pairs, {"seen": True}  # and integer ids, the course of the fit, a given range
    chains = accams.BayesianACCAMS(3, (4, 3), schedule="backfit", n_sweeps=2, n_chains=2, random_state=0).fit(train)
    chains.quality_ = chains.quality(held)
    yield "bayesian-evaluated", chains, pairs, {}
    yield "small", chains.compress(2500), pairs, {}
    yield "zeros", *zeros(), {}


def of_format_2() -> Iterator[tuple[str, Any, Any, dict[str, Any]]]:
    """Models whose files are of format 2."""
    train, held, pairs = halves()
    back = accams.ACCAMS(3, (4, 3), n_relearn=1, clip=(1.0, 4.5), random_state=0).fit(train)
    evaluated = replace(back.model_, evaluation=back.evaluate(held))
    yield "accams-2", evaluated, pairs, {"history": FOLDER / "history-2.accams"}
    text, text_pairs = named()
    yield "accams-text-2", text, text_pairs, {"history": True}
    priors = accams.Priors(row_noise=8.0, effects="continuous")
    schedule = accams.Schedule(n_burn_in=2, thin=1, rao_blackwell=True)
    chains = accams.BayesianACCAMS(
        3, (4, 3), noise="sampled", n_chains=2, n_sweeps=4, priors=priors, schedule=schedule, random_state=0
    )
    yield "bayesian-2", replace(chains.fit(train).model_, evaluation=chains.evaluate(held)), pairs, {}
    yield "compressed-2", chains.compress(3500), pairs, {}  # with a spread in place of draws
    yield "zeros-2", *zeros(), {"templates": "int8", "coding": "packed"}
    lists = accams.ItemACCAMS(2500, penalty=20.0, dropout=0.0, random_state=0).fit(train)
    yield "lists-2", back.model_.with_lists(lists), pairs, {"history": True}  # and an item map
    more = held.drop_duplicates("userId").assign(movieId=99)
    stars = accams.BayesianACCAMS(
        3, (4, 3), likelihood="auto", noise="calibrated", n_chains=2, n_sweeps=4, random_state=0
    )
    yield "ordinal-2", stars.fit(train), pairs, {}  # with a scale
    rated = accams.Priors(implicit=2)
    slopes = accams.BayesianACCAMS(3, (4, 3), noise=1.0, n_chains=2, n_sweeps=4, priors=rated, random_state=0)
    yield "slopes-2", slopes.fit(train), pairs, {}  # on what was rated
    ages = pd.DataFrame({"userId": train["userId"].unique()}).assign(age=lambda x: 20 + x.index % 5)
    kinds = pd.DataFrame({"movieId": train["movieId"].unique()}).assign(
        kind=lambda x: np.array(["a|b", "b", "c"])[x.index % 3]
    )
    yield "features-2", slopes.fit(train, user_features=ages, item_features=kinds), pairs, {}
    yield "updated-2", back.update(more, history=train), pairs, {"history": True}  # with what was taken in


def main() -> None:
    """Write the files that are not there, and what their models predict."""
    expected = json.loads(EXPECTED.read_text(encoding="utf-8")) if EXPECTED.exists() else {}
    for name, model, pairs, how in of_format_1() if FORMAT == 1 else of_format_2():
        path = FOLDER / f"{name}.accams"
        if path.exists():
            continue
        model.save(path, **how)
        expected[name] = {"pairs": pairs}
        if isinstance(model, accams.StencilSum):
            expected[name]["predictions"] = model.predict(*np.array(pairs).T).tolist()
            continue
        saved = accams.load(path)  # templates may have been rounded
        expected[name]["predictions"] = saved.predict(pairs).tolist()
        if isinstance(model, accams.BayesianACCAMS) or getattr(saved, "has_spread", False):
            _, std, ends = saved.predict(pairs, return_std=True, quantiles=LEVELS)
            expected[name].update(std=std.tolist(), quantiles=ends.tolist())
    EXPECTED.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
