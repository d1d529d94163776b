"""Threads: the same results in any number of them, errors come out, and a forked process starts its own."""

import multiprocessing
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from accams.threads import SINGLE_BLAS, Threads


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


def forked(threads):
    child = multiprocessing.get_context("fork").Process(target=squares, args=(threads,))
    child.start()
    return child


def ends_well(child):
    child.join(30)
    ended = child.exitcode
    child.kill()
    return ended == 0


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_starts_its_own_threads():
    """As a server does that loads a model, predicts once, and then forks its workers."""
    threads = Threads(2)
    squares(threads)
    assert ends_well(forked(threads))


@pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_forked_while_threads_start():
    """The lock that another thread holds at that moment is never opened in the forked process."""
    threads = Threads(2)
    with threads._lock:
        child = forked(threads)
    assert ends_well(child)


def blas_threads():
    return [each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"]


def test_the_last_one_out_lifts_the_limit_of_blas():
    before, both, one_left = blas_threads(), Barrier(2), Barrier(2)

    def first():
        with SINGLE_BLAS:
            both.wait(30)
        one_left.wait(30)

    with ThreadPoolExecutor(1) as pool:
        task = pool.submit(first)
        with SINGLE_BLAS:
            both.wait(30)
            one_left.wait(30)
            task.result()
            assert set(blas_threads()) <= {1}
    assert blas_threads() == before
