"""recommend, similar, explain and hierarchy: read, call the library, print."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.tree import Tree

from accams.batch import with_history
from accams.cli.messages import safe
from accams.cli.settings import listed
from accams.data.ids import Index
from accams.data.sniff import is_number
from accams.data.titles import read_titles, titled
from accams.errors import InputError
from accams.fitted.folding import FoldedRow
from accams.fitted.loading import load_model
from accams.fitted.model import Model
from accams.fitted.ranking import ranked_by
from accams.use.because import ListExplanation
from accams.use.explain import Explanation
from accams.use.hierarchy import Node
from accams.use.records import POPULAR

out = Console(emoji=False)  # ids are shown as they are
NAMED = 3  # members of a block
SCALES = {
    "weighted": "1 is the same, 0 as different as two are on average, less than 0 more so",
    "hamming": "the share of stencils in which both have the same label",
}


def recommend_items(
    path: Path, users: list[str] | None, rated: list[str] | None, n: int, history: Path | None, include_seen: bool,
    titles: Path | None, std: bool, quantile: float | None, as_json: bool, everybody: bool, output: Path | None,
    engine: str, address: str | None, by: str,
) -> None:  # fmt: skip
    """Print the best items for some users or for someone new, or write those for everybody."""
    if everybody:
        from accams.cli.bulk import recommend_everybody

        given = {"user ids": users, "--rated": rated, "--titles": titles, "--quantile": quantile, "--json": as_json}
        wrong = [name for name, x in given.items() if x] + ([] if by == "auto" else ["--by"])
        if wrong:
            raise InputError(f"--all writes ids and scores of all users: leave out {listed(wrong)}")
        recommend_everybody(path, output, n, history, include_seen, std, engine, address)
        return
    if output is not None or engine != "cpu" or address is not None:
        raise InputError("--output, --engine and --address are for all users: add --all")
    model = loaded(path, history)
    names = names_of(titles, model.col_index)
    if users and rated:
        raise InputError("name the users or what a new one has rated (--rated), not both")
    if not (users or rated):
        raise InputError("name the users, or what a new one has rated: --rated ITEM=VALUE")
    asked: Any = folded_from(model, rated) if rated else ids_of(model.row_index, users or [])
    best = model.recommend(asked, n, exclude_seen=not include_seen, return_std=std, quantile=quantile, by=by)
    lines = [
        {"user": r.user, "rank": r.rank, "item": r.item, "title": names.get(r.item), "score": r.score,
         "prediction": r.prediction, "std": r.std, "rule": r.rule}
        for r in best
    ]  # fmt: skip
    predicted = any(line["prediction"] is not None for line in lines)
    std = std and any(line["std"] is not None for line in lines)
    if as_json:
        write_json(lines, drop=(*(() if std else ("std",)), *(() if predicted else ("prediction",))))
        return
    by_choice = ranked_by(model, by, quantile) == "choice"
    shown = {"title": bool(names), "score": True, "predicted": predicted, "std": std}
    table = Table("user", "rank", "item", *(name for name, is_shown in shown.items() if is_shown))
    for line in lines:
        cells = {
            "title": safe(line["title"] or ""),
            "score": f"{line['score']:.{3 if by_choice and line['score'] != line['prediction'] else 2}f}",
            "predicted": f"{line['prediction']:.2f}" if predicted else "",
            "std": f"{line['std']:.2f}" if std else "",
        }
        first = [safe(line["user"]) if line["rank"] == 1 else "", str(line["rank"]), safe(line["item"])]
        table.add_row(*first, *(cells[name] for name, is_shown in shown.items() if is_shown))
    out.print(table)
    for who in dict.fromkeys(line["user"] for line in lines if line["rule"] == POPULAR):
        out.print(f"{safe(who)} has no history that says more: these are popular items", highlight=False)


def similar_ones(path: Path, which: str, n: int, side: str, by: str, titles: Path | None, as_json: bool) -> None:
    """Print what is most similar to an item or a user."""
    model = load_model(path)
    index = model.col_index if side == "items" else model.row_index
    names = names_of(titles, index)
    [itself] = ids_of(index, [which])
    found = model.similar(itself, n, side=side, by=by)
    if as_json:
        write_json([{"id": x, "title": names.get(x), "similarity": score} for x, score in found])
        return
    title = f"most similar to {safe(names.get(itself, itself))}"
    table = Table("id", *(["title"] if names else []), "similarity", title=title, title_justify="left")
    for x, score in found:
        table.add_row(safe(x), *([safe(names.get(x, ""))] if names else []), f"{score:.3f}")
    out.print(table)
    out.print(SCALES[by], highlight=False)


def explain_one(
    path: Path, item: str, user: str | None, rated: list[str] | None, by: str, history: Path | None,
    titles: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Print why a score or a prediction is what it is."""
    model = loaded(path, history)
    names = names_of(titles, model.col_index)
    if user is not None and rated:
        raise InputError("name the user (--user) or what a new one has rated (--rated), not both")
    if user is None and not rated:
        raise InputError("name the user (--user), or what a new one has rated: --rated ITEM=VALUE")
    [column] = ids_of(model.col_index, [item])
    who: Any = folded_from(model, rated or []) if user is None else ids_of(model.row_index, [user])[0]
    why = model.explain(who, column, by=by)
    if isinstance(why, ListExplanation):
        _show_reasons(why, names, as_json)
    else:
        _show_terms(why, names, as_json)


def _show_reasons(why: ListExplanation, names: dict[Any, str], as_json: bool) -> None:
    """Print which items of a history speak for an item."""
    if as_json:
        terms = [{"item": x, "title": names.get(x), "value": value} for x, value in why.terms]
        write_json({"score": why.score, "popularity": why.popularity, "terms": terms})
        return
    title = f"{why.score:.3f} for {safe(why.user)} and {safe(names.get(why.item, why.item))}"
    table = Table("adds", "because of", title=title, title_justify="left")
    shown = why.largest()
    for item, value in shown:
        table.add_row(f"{value:+.3f}", safe(names.get(item, item)))
    left = why.largest(len(why.terms))[len(shown) :]
    if left:
        table.add_row(f"{sum(value for _, value in left):+.3f}", f"{len(left)} more items of the history")
    if not why.terms:
        value, text = why.without_terms()
        table.add_row(f"{value:+.3f}", text)
    out.print(table)


def _show_terms(why: Explanation, names: dict[Any, str], as_json: bool) -> None:
    """Print which blocks of users and items add to a prediction."""
    rest = {"effects": why.effects, "beyond the small model": why.remainder, "clipping": why.clipping}
    if as_json:
        terms = [
            {"stencil": t.stencil, "value": t.value, "users": list(t.users.members), "n_users": t.users.size,
             "items": list(t.items.members), "n_items": t.items.size}
            for t in why.terms
        ]  # fmt: skip
        write_json({"prediction": why.prediction, "offset": why.offset, "terms": terms, **rest})
        return
    title = f"{why.prediction:.2f} for {safe(why.user)} and {safe(names.get(why.item, why.item))}"
    table = Table("adds", "stencil", "users like", "on items like", title=title, title_justify="left")
    table.add_row(f"{why.offset:+.2f}", "", "all", "all: the average")
    shown = why.largest()
    for term in shown:
        people = f"{_some(term.users.members)} ({term.users.size:,})"
        items = f"{_some(titled(names, term.items.members))} ({term.items.size:,})"
        table.add_row(f"{term.value:+.2f}", str(term.stencil), people, items)
    left = [term.value for term in why.largest(len(why.terms))[len(shown) :]]
    rest = {f"{len(left)} more stencils": sum(left), **rest}
    for name, value in rest.items():
        if round(value, 2):
            table.add_row(f"{value:+.2f}", "", "", name)
    out.print(table)


def show_hierarchy(
    path: Path, depth: int, side: str, branches: int, least: int | None, active: float, titles: Path | None,
    as_json: bool,
) -> None:  # fmt: skip
    model = load_model(path)
    axis = 1 if side == "items" else 0
    index = model.indices[axis]
    names = names_of(titles, index)
    known = model.activity
    if active and known is None:
        raise InputError(f"{path} does not know how many entries rows and columns had: leave out --active")
    some = index.ids[known[axis] >= active].tolist() if active and known else None
    root = model.hierarchy(depth, side, branches=branches, least=least, candidates=some)
    if as_json:
        write_json(root.to_dict(lambda x: names.get(x, x)))
        return

    def shown(node: Node) -> str:
        return f"[bold]{node.size:,}[/]  {safe(', '.join(titled(names, node.members)))}"

    def grow(tree: Tree, node: Node) -> Tree:
        for child in node.children:
            grow(tree.add(shown(child)), child)
        return tree

    out.print(grow(Tree(shown(root)), root))


def loaded(path: Path, history: Path | None) -> Model:
    """Load a model, with what users have seen if that is in a file of its own."""
    model = load_model(path)
    return model if history is None else with_history(model, history)


def folded_from(model: Model, rated: list[str]) -> FoldedRow:
    """Fold in someone new, from ITEM=VALUE."""
    parts = [each.rpartition("=") for each in rated]
    for each, (item, _, value) in zip(rated, parts, strict=True):
        if not item or not is_number(value):
            raise InputError(f"--rated takes ITEM=VALUE, such as 260=5, not {each!r}")
    return model.fold_in(ids_of(model.col_index, [part[0] for part in parts]), [float(part[2]) for part in parts])


def ids_of(index: Index, texts: list[str]) -> list[Any]:
    """Return the ids that are written so; text that is no id stays as it is."""
    found = index.find(np.array(texts, str))
    return [text if p < 0 else index.ids[p : p + 1].tolist()[0] for text, p in zip(texts, found.tolist(), strict=True)]


def names_of(titles: Path | None, index: Index) -> dict[Any, str]:
    return {} if titles is None else read_titles(titles, index)


def write_json(what: Any, drop: tuple[str, ...] = ()) -> None:
    if isinstance(what, list):
        what = [{k: v for k, v in each.items() if k not in drop} for each in what]
    sys.stdout.write(json.dumps(what, indent=2, default=str) + "\n")


def _some(names: Any) -> str:
    return safe(", ".join(map(str, list(names)[:NAMED])))
