"""Conditional probabilities of row labels given everything else: what Rao-Blackwellised draws hold."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from accams.fit.gibbs import Chain
from accams.model.stencils import Labels


def row_shares(chain: Chain) -> NDArray[np.uint8]:
    """Return the conditional probabilities of every row's labels, in 255ths, for all stencils side by side.

    Each stencil has an additional column for the average row, which takes all probability of rows without
    observations; the additional last row stands for rows that are not in the data.
    """
    state, parts = chain.state, list[NDArray[np.float64]]()
    unseen = state.engine.observations.empty(0)
    for stencil, T in enumerate([*state.templates]):
        state.begin(stencil)
        (n, l), t = state.sums(0), T.astype(np.float64)
        precision = 0.5 * state.weight_unit * state.engine.grid.step**2 / chain.sigma2
        scale = precision * (1 if state.row_weights is None else state.row_weights[:, None])
        logits = _log_weights_without(chain, stencil, state.labels[0]) - scale * (n @ (t * t).T - 2.0 * (l @ t.T))
        shares = np.append(softmax(logits, axis=1), np.zeros((len(logits), 1)), axis=1)
        shares[unseen] = np.append(np.zeros(len(t)), 1.0)
        parts.append(shares)
        state.end(T)
    last = np.concatenate([np.append(np.zeros(len(T)), 1.0) for T in state.templates])
    return np.rint(255.0 * np.append(np.concatenate(parts, axis=1), last[None], axis=0)).astype(np.uint8)


def _log_weights_without(chain: Chain, stencil: int, labels: Labels) -> NDArray[np.float64]:
    """Return the log prior weight of every label for every row, given the labels of all other rows."""
    counts, concentration = chain.counts[stencil][0], chain.hyper.concentration(stencil, 0)
    others = counts - (np.arange(len(counts)) == labels[:, None])
    weights = others + concentration
    if chain.hyper.label_prior == "crp":
        first = np.argmin(others > 0, axis=1)[:, None]  # only one of the empty clusters can be opened
        opened = (np.arange(len(counts)) == first) & (others == 0)
        weights = np.where(opened, concentration, others)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(weights))
