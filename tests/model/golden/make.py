"""How the model files in this folder were made, and what they predicted then.

Every later version must read them, so they are never made again: for a new format, add files under other names.
Run with `python tests/model/golden/make.py`; a file that is there already is left alone.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import accams

FOLDER = Path(__file__).parent
EXPECTED = FOLDER / "predictions.json"
LEVELS = [0.05, 0.5, 0.95]


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


def main() -> None:
    """Write the files that are not there, and what their models predict."""
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    (text, text_pairs), (draws, draw_pairs), one = named(), posterior(), stencil_sum()
    cells = [(i, j) for i in (-1, 0, 3, 20, 39) for j in (-1, 0, 1, 29)]
    i, j = np.array(cells).T
    for name, model, pairs, how in (
        ("sum-entropy", one, cells, {"coding": "entropy"}),
        ("sum-packed", one, cells, {"coding": "packed"}),
        ("sum-int8", one.rounded("int8"), cells, {}),
        ("accams-text", text, text_pairs, {}),
        ("bayesian", draws, draw_pairs, {}),
        ("accams-alike", text, text_pairs, {}),  # as the first of these, with templates on a grid and one shape for all
        ("bayesian-alike", draws, draw_pairs, {}),
        ("accams-seen", text, text_pairs, {"seen": True}),  # and which cells were observed
    ):
        path = FOLDER / f"{name}.accams"
        if path.exists():
            continue
        model.save(path, **how)
        expected[name] = {"pairs": pairs}
        if isinstance(model, accams.StencilSum):
            expected[name]["predictions"] = model.predict(i, j).tolist()
        else:
            expected[name]["predictions"] = model.predict(pairs).tolist()
        if isinstance(model, accams.BayesianACCAMS):
            _, std, ends = model.predict(pairs, return_std=True, quantiles=LEVELS)
            expected[name].update(std=std.tolist(), quantiles=ends.tolist())
    EXPECTED.write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
