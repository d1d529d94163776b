"""Threads: the same results in any number of them, errors come out, and a forked process starts its own."""

import multiprocessing
import sys

import numpy as np
import pytest

from accams.threads import Threads


def squares(threads: Threads, n: int = 40) -> list[int]:
    return threads.map(lambda lo, hi: sum(x * x for x in range(lo, hi)), [(x, x + 1) for x in range(n)])


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_ranges(n_threads):
    threads = Threads(n_threads)
    assert squares(threads) == [x * x for x in range(40)]
    threads.close()
    assert squares(threads) == [x * x for x in range(40)]


def test_an_error_comes_out_and_the_threads_can_be_used_again():
    threads = Threads(2)
    with pytest.raises(ZeroDivisionError):
        threads.map(lambda lo, hi: 1 // (lo - 7), [(x, x + 1) for x in range(40)])
    assert squares(threads) == [x * x for x in range(40)]


@pytest.mark.parametrize(("rows", "each"), [(0, 5), (1, 5), (10, 0), (100_000, 3)])
def test_ranges_cover_all_rows_once(rows, each):
    for threads in (Threads(1), Threads(2), Threads(3, chunk_size=1000)):
        both = [threads.split_evenly(rows, each), threads.split(each * np.arange(rows + 1))]
        for ranges in both:
            assert [x for lo, hi in ranges for x in range(lo, hi)] == list(range(rows))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_its_own_threads():
    """As a server does that loads a model, predicts once, and then forks its workers."""
    threads = Threads(2)
    squares(threads)
    child = multiprocessing.get_context("fork").Process(target=squares, args=(threads,))
    child.start()
    child.join(30)
    ended = child.exitcode
    child.kill()
    assert ended == 0
