"""Export a model as a page of static files, in which everything is computed by the browser."""

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.ids import Index
from accams.errors import InputError
from accams.explore.answers import Explorer
from accams.explore.contents import VERSION_DIGITS, plain
from accams.fitted.files import to_bytes
from accams.fitted.loading import load_model
from accams.fitted.model import Model
from accams.fitted.parts import FitInfo
from accams.model.spread import Spread
from accams.model.stencil import Stencil
from accams.use.hierarchy import Node
from accams.writing import new_folder, reported, scratch_folder

FORMAT = 1  # of site.json
BYTES_PER_LINE, LEAST_BYTES = 16, 20_000  # of a model that stands for many draws: per user and item, and at least
DEPTH, BRANCHES, MEMBERS = 6, 3, 20  # of the tree, which pages cut to what is asked for
PAGE = (".html", ".js", ".css", ".svg")  # kinds of files that make the page
Json = dict[str, Any]


def export(
    model: Model, folder: str | Path, *, titles: Mapping[Any, str] | None = None, name: str = "model",
    users: bool = False,
) -> None:  # fmt: skip
    """Write a page that explores a model, as a folder of static files; a web server is all that it needs.

    Parameters
    ----------
    model : Model
        One with many draws is first distilled into a small sum with a predictive spread, which may take a minute.
    folder : path
        Must not exist yet.
    titles : mapping, optional
        Names of item ids.
    name : str, default "model"
        Heading of the page.
    users : bool, default False
        Whether the page tells the ids of users, their labels and what they have seen. Without, labels of users are in
        the files only as counts: which user has which ones cannot be told.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from accams import ACCAMS
    >>> model = ACCAMS(n_stencils=1, n_clusters=2).fit(np.add.outer([0.0, 0, 2, 2], [1.0, 1, 2])).model_
    >>> with TemporaryDirectory() as folder:
    ...     export(model, Path(folder, "site"), titles={0: "Heat", 1: "Alien", 2: "Bambi"}, name="films")
    ...     sorted(path.name for path in Path(folder, "site").iterdir() if path.suffix != ".js")
    ['ids.json', 'index.html', 'model.accams', 'site.json', 'style.css']
    """
    folder = Path(folder)
    if folder.exists():
        raise InputError(f"{folder} exists already: name a folder that does not, or remove it")
    small = _without_past(single(model))
    keep = users and small.interactions is not None
    content = to_bytes(small if users else anonymous(small), interactions=keep)
    explorer = Explorer(_reread(small), titles, name, sha256(content).hexdigest()[:VERSION_DIGITS], len(content))
    site = site_of(explorer, users)
    site["model"] |= {"users": model.shape[0], "history": keep, "named_users": users}
    site["distilled"] = None if model.posterior is None else {"draws": len(model.posterior)}
    texts = {"site.json": site, "ids.json": names_of(explorer, users)}
    with new_folder(folder) as target, reported(folder):
        (target / "model.accams").write_bytes(content)
        for file, what in texts.items():
            text = json.dumps(what, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            (target / file).write_text(text, encoding="utf-8")
        for each in (resources("accams.explore") / "page").iterdir():
            if each.name.endswith(PAGE):
                (target / each.name).write_bytes(each.read_bytes())


def _reread(model: Model) -> Model:
    """Return the model as files hold it, by which pages and the service answer.

    Trees name typical items, which depends on the labels of each user: those of a public page are made from these.
    """
    with scratch_folder() as scratch:
        (scratch / "model.accams").write_bytes(to_bytes(model, interactions=model.interactions is not None))
        return load_model(scratch / "model.accams")


def single(model: Model) -> Model:
    """Return the model itself, or what is distilled of many draws, with intervals."""
    if model.posterior is None:
        return model
    weights = "uniform" if model.activity is None else "activity"
    size = max(BYTES_PER_LINE * sum(model.shape), LEAST_BYTES)
    values = replace(model, item_map=None, interactions=None)  # so that all bytes are for the stencils
    small = values.compress(size, ids=False, weights=weights)
    return replace(small, item_map=model.item_map, interactions=model.interactions, info=model.info)


def _without_past(model: Model) -> Model:
    """Return the model without what only whoever fitted it needs to know: paths, parameters, steps of the fit."""
    info = FitInfo(model.info.estimator, {}, model.info.training, model.info.names)
    return replace(model, info=info, fit_history=())


def anonymous(model: Model) -> Model:
    """Return a model without ids and history of users, in which nobody's labels can be told.

    The labels of each stencil are sorted for themselves, users without data last. What depends on how many users have a
    label stays as it is: averages, sizes of clusters, what is expected of somebody new.
    """
    one, (m, _) = model.stencils, model.shape
    seen = model.with_data(0)
    last = np.arange(len(seen), m)

    def sort(x: NDArray[Any], rest: Any) -> NDArray[Any]:
        return np.append(np.sort(x[seen]), np.full(m - len(seen), rest, x.dtype))

    stencils = tuple(Stencil(s.template, sort(s.row_labels, 0), s.col_labels, s.step) for s in one.stencils)
    effects = None if one.row_effects is None else sort(one.row_effects, 0.0)
    spread = model.spread
    if spread is not None:
        spread = Spread(spread.table, sort(spread.row_classes, len(spread.table) - 1), spread.col_classes)
    return replace(
        model,
        stencils=replace(one, stencils=stencils, unseen_rows=last, row_effects=effects),
        row_index=Index(None, m),
        spread=spread,
        activity=None if model.activity is None else (np.ones(m), model.activity[1]),
        interactions=None,
    )


def names_of(explorer: Explorer, users: bool) -> Json:
    """Return ids.json: ids and titles of items, and ids of users if they may be told; null stands for positions."""
    rows, cols = explorer.source.indices
    titles = [explorer.titles.get(x) for x in cols.ids.tolist()] if explorer.titles else None
    return {"items": _plain(cols), "titles": titles} | ({"users": _plain(rows)} if users else {})


def _plain(index: Index) -> list[Any] | None:
    """Return ids as JSON has them; integers that would lose digits in a browser are text."""
    if index.is_positional:
        return None
    return list(map(plain, index.ids.tolist()))


def site_of(explorer: Explorer, users: bool) -> Json:
    """Return site.json: what a page does not compute by itself."""
    clusters, model = explorer.clusters, explorer.source
    items, plane, group, groups = explorer.places
    everything = len(items) == model.shape[1]
    weights: Json | None = None
    if model.activity is None and model.predicts:
        rows, cols = ([float(f"{x:.9g}") for x in each] for each in clusters.weights)
        weights = {"cols": cols} | ({"rows": rows} if users else {})
    return {
        "format": FORMAT,
        "model": explorer.model(),
        "weights": weights,
        "likes": [clusters.liked(s).tolist() for s in range(len(clusters.codes.starts))],
        "tree": {
            "depth": DEPTH,
            "branches": BRANCHES,
            "members": MEMBERS,
            "items": _tree(explorer, 1),
            "users": _tree(explorer, 0) if users else None,
        },
        "map": {
            "items": None if everything else items.tolist(),
            "x": plane[:, 0].tolist(),
            "y": plane[:, 1].tolist(),
            "group": group.tolist(),
            "groups": groups,
        },
    }


def _tree(explorer: Explorer, side: int) -> Json | None:
    """Return the tree of items (or users) with positions in place of ids; None where there are no labels."""
    try:
        root = explorer.tree(("users", "items")[side], DEPTH, BRANCHES, MEMBERS)
    except InputError:
        return None
    index = explorer.source.indices[side]

    def plain(node: Node) -> Json:
        return {
            "stencil": node.stencil,
            "labels": list(node.labels),
            "size": node.size,
            "members": index.positions(list(node.members)).tolist(),
            "children": [plain(child) for child in node.children],
        }

    return plain(root)
