"""One stencil visit, of ACCAMS and of the samplers, against NumPy's two weighted bincounts; one thread against two.

A visit is what a sweep does per stencil: the previous stencil goes into the residual and this one comes out (both
orders), sums per row and per column are gathered, all labels are assigned or drawn (with weights and template, in
the samplers), and the stencil is put back.

Run: python experiments/speed.py          (needs MovieLens 1M, see docs/data.md)
"""

from __future__ import annotations

from functools import partial

import numpy as np

from accams.data import datasets
from accams.data.observations import Observations
from accams.engine.base import State
from accams.engine.choose import make_engine
from accams.engine.rules import Nearest
from accams.fit.gibbs import Chain
from accams.fit.hyper import Hyperparameters, Sampler
from common import machine, ratio, use_local_data

K = 10


def random_state_of(observations: Observations, n_threads: int) -> State:
    """A state with two random stencils in it."""
    state = make_engine(observations, "cpu", 2, n_threads, row_weights=True).new_state()
    random = np.random.default_rng(0)
    for stencil in range(2):
        state.begin(stencil, (K, K))
        for axis in (0, 1):
            state.set_labels(axis, random.integers(0, K, state.shape[axis]).astype(np.uint8))
        state.end(state.engine.grid.template(random.normal(size=(K, K)) * 2.0**16))
    return state


def chain_of(observations: Observations, sampler: Sampler, row_noise: float | None = None) -> Chain:
    """A chain of two stencils that has made a few sweeps, on one thread."""
    state = random_state_of(observations, 1)
    both = [1.0, 1.0]
    priors = Hyperparameters([(K, K)] * 2, both, both, sampler=sampler, tau2=[0.01, 0.01], row_noise=row_noise)
    chain = Chain(state, priors, 0, 0.5)
    chain.recount()
    for _ in range(3):
        chain.run_sweep()
    return chain


def update(state: State, stencil: int) -> None:
    """Take one stencil out, update rows and columns, put it back."""
    state.begin(stencil)
    T = state.templates[stencil]
    for axis in (0, 1):
        state.update(axis, Nearest(T))
    state.end(T)


def main() -> None:
    use_local_data()
    observations = datasets.movielens("1m").observations
    rows, cols, values = observations.coo()
    r = values - values.mean()
    m, n = observations.shape
    random = np.random.default_rng(0)
    row_label, col_label = random.integers(0, K, m), random.integers(0, K, n)

    def bincounts() -> None:
        for own, labels, size in ((rows, col_label[cols], m), (cols, row_label[rows], n)):
            index = own * K + labels
            np.bincount(index, weights=r, minlength=size * K)
            np.bincount(index, minlength=size * K)

    states = {threads: random_state_of(observations, threads) for threads in (1, 2)}
    turn = [0]

    def ours(threads: int) -> None:
        turn[0] += 1
        update(states[threads], turn[0] % 2)

    one, numpy_time, against = ratio(lambda: ours(1), bincounts)
    print(
        f"one update, 1 thread: {1e3 * one:.2f} ms; NumPy's bincounts: {1e3 * numpy_time:.2f} ms; ratio {against:.3f}"
    )
    random = np.random.default_rng(1)

    def visit(chain: Chain) -> None:
        turn[0] += 1
        chain.sweep += 1  # other random numbers each time
        chain.visit(turn[0] % 2, random)

    blocked = chain_of(observations, "blocked")
    for name, chain in (
        ("blocked", blocked),
        ("blocked with row noise", chain_of(observations, "blocked", 30.0)),
        ("collapsed", chain_of(observations, "collapsed")),
    ):
        mine, _, against = ratio(partial(visit, chain), bincounts)
        print(f"one {name} visit: {1e3 * mine:.2f} ms; ratio to the bincounts {against:.3f}")
        if chain is not blocked:
            print(f"  to a plain blocked visit: {ratio(partial(visit, chain), partial(visit, blocked))[2]:.2f}")
    one, two, gain = ratio(lambda: ours(1), lambda: ours(2))
    print(f"1 thread {1e3 * one:.2f} ms, 2 threads {1e3 * two:.2f} ms: {gain:.2f} times faster")
    print(machine())


if __name__ == "__main__":
    main()
