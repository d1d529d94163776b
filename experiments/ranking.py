"""Evaluate lists of recommendations on MovieLens: ours beside the usual rivals, by three protocols.

`lists/protocols.py` defines the protocols and the measures, `lists/rivals.py` says how bytes are counted. Settings are
chosen on a validation task that sees nothing of the test (`lists/search.py`). So is the input of every method: likes
only, or *weighted*, where a film that was rated lower counts 0.3. `ItemACCAMS` is given the ratings of the training
data and chooses for itself: that is part of its seconds, whereas a rival's are those of one fit with its setting. It
does so on users at random; by the temporal protocol it is also shown with `held_out="latest"`, and with the input that
validation chose for EASE with dropout. A ± is the standard error of the difference over the test users. Rivals need
`pip install implicit`.

Run: python experiments/ranking.py [--set 100k|1m] [--protocol NAME ...] [--sizes N ...] [--without NAME ...] [--quick]
     [--slow] [--out FILE]
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from accams.data import datasets
from common import machine, table, use_local_data
from lists import ours
from lists.protocols import Protocol, protocols
from lists.rivals import DROPOUT, EASE, RIVALS, Method, compressed_ease
from lists.search import as_text, choose, edges
from paper.pages import write_csv

say = partial(print, flush=True)
PROTOCOLS = ("leave-ten-out", "strong-generalisation", "temporal")
MEASURES = ("recall@10", "recall@20", "NDCG@10", "NDCG@100", "coverage", "long tail")
Row = dict[str, Any]


def methods(protocol: str, done: list[Row], given: argparse.Namespace) -> Iterator[Method]:
    """Yield rivals, then ours; rows of the rivals are done by then, and one of them gives a setting."""
    with_implicit = importlib.util.find_spec("implicit") is not None
    if not with_implicit:
        say("implicit is not installed: its methods are left out")
    known = (method for method in RIVALS if with_implicit or "implicit" not in method.name)
    yield from (method for method in known if not given.without or method.name not in given.without)
    chosen = next(row["chosen"] for row in done if row["method"] == DROPOUT.name)
    sizes = given.sizes or ours.SIZES[: 1 if given.quick else None]
    yield from (compressed_ease(chosen, size) for size in sizes)
    yield from (ours.sized(size) for size in sizes)
    if protocol == "temporal":
        yield from (ours.latest(chosen["input"], size) for size in sizes)
    if given.slow:
        yield from ours.of_users_and_items(given.quick)


def results(protocol: Protocol, given: argparse.Namespace) -> list[Row]:
    """Return a row for each method, with its measures on the test."""
    rows: list[Row] = []
    test = protocol.test
    for method in methods(protocol.name, rows, given):
        setting = choose(method, protocol.validation, given.quick, say)
        began = perf_counter()
        fitted = method.fitted(test, setting)
        seconds = perf_counter() - began
        lists = fitted.lists(test.history, test.users)
        test.check(lists)
        row = {"protocol": protocol.name, "users": len(lists), "method": method.name, "chosen": setting}
        row |= {"edges": edges(method, setting), **test.measure(lists), "each": test.each(lists)}
        row |= {"seconds": seconds, "bytes": fitted.n_bytes}
        say(f"{protocol.name}: {method.name}, {as_text(setting)}: NDCG@10 {row['NDCG@10']:.4f}, {seconds:.1f} s")
        rows.append(row)
    return rows


def add_difference(rows: list[Row]) -> None:
    """Add the difference of each method's NDCG@10 from EASE's, and its standard error, paired by user."""
    ease = next(row["each"] for row in rows if row["method"] == EASE.name)
    for row in rows:
        apart = row.pop("each") - ease
        row["minus EASE"], row["its error"] = float(apart.mean()), float(apart.std() / np.sqrt(len(apart)))


def page(title: str, protocol: Protocol, rows: list[Row]) -> str:
    """Return the table of a protocol, the best by NDCG@10 first."""
    validation, test = protocol.validation, protocol.test
    about = (
        f"{test.history.shape[0]:,} test users with {test.relevant.nnz:,} likes to find; {test.ratings.nnz:,} ratings "
        f"to train on. Validation: {validation.history.shape[0]:,} users with {validation.relevant.nnz:,} likes."
    )
    lines = []
    for row in sorted(rows, key=lambda row: -row["NDCG@10"]):
        numbers = [f"{row[name]:.4f}" for name in MEASURES[:4]] + [f"{100 * row[name]:.1f} %" for name in MEASURES[4:]]
        apart = "" if row["method"] == EASE.name else f"{row['minus EASE']:+.4f} ± {row['its error']:.4f}"
        chosen = {name: value for name, value in row["chosen"].items() if name not in ("size", "max_bytes")}
        at_edge = f" (at the edge: {', '.join(row['edges'])})" if row["edges"] else ""
        cells = [as_text(chosen) + at_edge, *numbers[:3], apart, *numbers[3:], f"{row['seconds']:.1f}"]
        lines.append([row["method"], *cells, f"{row['bytes']:,}"])
    header = ["method", "setting", *MEASURES[:3], "minus EASE's", *MEASURES[3:], "seconds", "bytes"]
    return f"\n## {title}\n\n{about}\n\n{table(header, lines)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", default="1m", choices=["100k", "1m"])
    parser.add_argument("--protocol", nargs="*", choices=PROTOCOLS, default=PROTOCOLS)
    parser.add_argument("--sizes", nargs="*", type=int, help="bytes of ours; by default 100,000 and 400,000")
    parser.add_argument(
        "--without", nargs="*", choices=[x.name for x in RIVALS if "EASE" not in x.name], help="rivals to leave out"
    )
    parser.add_argument("--quick", action="store_true", help="choose among inputs only, one size, short fits")
    parser.add_argument("--slow", action="store_true", help="ACCAMS and BayesianACCAMS too, which take minutes")
    parser.add_argument("--out", type=Path, help="CSV of all rows")
    given = parser.parse_args()
    use_local_data()
    began, rows = perf_counter(), list[Row]()
    known = protocols(datasets.movielens(given.set).observations)
    for protocol in (protocol for protocol in known if protocol.name in given.protocol):
        found = results(protocol, given)
        add_difference(found)
        say(page(f"MovieLens {given.set.upper()}, {protocol.name}", protocol, found))
        rows += found
        if given.out:
            write_csv([{**x, "chosen": as_text(x["chosen"]), "edges": " ".join(x["edges"])} for x in rows], given.out)
    say(machine(*(["implicit"] if importlib.util.find_spec("implicit") else [])))
    say(f"{(perf_counter() - began) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
