"""Plots of a fitted model, as `model.plot` has them: by matplotlib, or by Plotly where one wants to point at things."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from accams.errors import InputError
from accams.report import figures, plots
from accams.report.facts import naming, picture_of, sides_of, weights_of
from accams.report.interactive import interactive
from accams.report.plots import Panel
from accams.use.hierarchy import telling
from accams.use.places import places

BACKENDS = ("matplotlib", "plotly")
SHOWN = 4  # stencils
SMALLEST, STEPS = 2000, (1, 2, 4)  # bytes of a file, and for each row and column, at which errors are shown
BRANCHES = 4  # colours of the map


class Plots:
    """Plots of a fitted model.

    Each method returns what the backend calls a plot: Axes of matplotlib (an array of them where there are several),
    or a Figure of Plotly. ``axes.figure.savefig("plot.svg")`` (``axes[0].figure`` where there are several) and
    ``figure.write_html("plot.html")`` save them.

    Parameters
    ----------
    fitted : callable
        Returns the model; it is called for each plot.

    Examples
    --------
    >>> import numpy as np
    >>> from accams import ACCAMS
    >>> x = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 3])
    >>> model = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(x)
    >>> axes = model.plot.templates()
    >>> [ax.get_title(loc="left") for ax in axes]
    ['Stencil 0', 'Stencil 1']
    """

    def __init__(self, fitted: Callable[[], Any]) -> None:
        self._fitted = fitted

    def templates(
        self, stencils: Sequence[int] | None = None, *, titles: Mapping[Any, str] | None = None,
        backend: str = "matplotlib",
    ) -> Any:  # fmt: skip
        """Draw stencils as tables: what each adds to a cluster of rows on a cluster of columns.

        Clusters that are alike are drawn as one where there are more than 6 of rows or 8 of columns. Columns are named
        by the most active members of their cluster. A model with many draws is drawn by the small model that explains
        it.

        Parameters
        ----------
        stencils : sequence of int, optional
            Positions of the stencils to draw; by default, the four that tell columns apart most.
        titles : mapping, optional
            Names of item ids.
        backend : {"matplotlib", "plotly"}, default "matplotlib"

        Returns
        -------
        array of Axes, or Figure

        Examples
        --------
        >>> import numpy as np
        >>> from accams import ACCAMS
        >>> x = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 3])
        >>> model = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(x)
        >>> model.plot.templates([0]).shape
        (1,)
        """
        model = self._model("templates")
        codes = model.explainer.stencils.codes
        chosen = telling(codes, 1)[:SHOWN].tolist() if stencils is None else [int(s) for s in stencils]
        for s in chosen:
            if not 0 <= s < codes.rows.shape[1]:
                raise InputError(f"there is no stencil {s}: the model is drawn by {codes.rows.shape[1]}, from 0 on")
        sides = sides_of(model)
        pictures = (picture_of(model, s, naming(titles)) for s in chosen)
        panels = [
            Panel(f"stencil{x.stencil}", f"Stencil {x.stencil}", plots.picture_plot(x, sides), "") for x in pictures
        ]
        return _drawn(panels, backend, across=2, width=5.6)

    def sizes(self, *, backend: str = "matplotlib", ax: Any = None) -> Any:
        """Draw the bytes of the model beside those of the data and of factorisations.

        Parameters
        ----------
        backend : {"matplotlib", "plotly"}, default "matplotlib"
        ax : Axes, optional
            Where to draw, with matplotlib.

        Returns
        -------
        Axes, or Figure

        Examples
        --------
        >>> import numpy as np
        >>> from accams import ACCAMS
        >>> model = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(np.eye(30))
        >>> model.plot.sizes().get_title(loc="left")
        'Bytes'
        """
        panel = Panel("bytes", "Bytes", plots.sizes_plot(weights_of(self._model("sizes"))), "")
        return drawn_one(panel, backend, ax)

    def error_by_size(
        self, X: Any, y: Any = None, sizes: Sequence[int] | None = None, *, backend: str = "matplotlib", ax: Any = None,
        **how: Any,
    ) -> Any:  # fmt: skip
        """Draw the error of small models in place of this one against their bytes.

        Parameters
        ----------
        X, y
            Observations by which errors are measured, as for `score`: best those that were held out.
        sizes : sequence of int, optional
            Bytes of the small models; by default 2,000, and 1, 2 and 4 for each row and column.
        backend : {"matplotlib", "plotly"}, default "matplotlib"
        ax : Axes, optional
            Where to draw, with matplotlib.
        **how
            Settings of `compress`: ids, weights, random_state, n_threads, verbose.

        Returns
        -------
        Axes, or Figure

        Examples
        --------
        >>> import numpy as np
        >>> from accams import ACCAMS
        >>> x = np.random.default_rng(0).normal(size=(60, 50)).cumsum(axis=0)
        >>> model = ACCAMS(n_stencils=20, n_clusters=8, verbose=False).fit(x)
        >>> ax = model.plot.error_by_size(x, sizes=[1500, 2000], verbose=False)
        >>> ax.get_ylabel()
        'RMSE'
        """
        model = self._model("error_by_size")
        whole = model.file_size
        points = [(float(whole), -float(model.score(X, y)))]
        asked = [SMALLEST + sum(model.shape) * step for step in STEPS] if sizes is None else [int(x) for x in sizes]
        for size in asked:
            try:
                if sizes is not None or size < whole:
                    points.append((float(size), -float(model.compress(size, **how).score(X, y))))
            except InputError:
                if sizes is not None:  # else there is no room for the ids
                    raise
        if len(points) == 1:
            raise InputError(f"no small model between {asked[0]:,} bytes and this one's {whole:,}: pass sizes=[...]")
        return drawn_one(Panel("bysize", "Error by bytes", plots.by_size_plot(points), ""), backend, ax)

    def trace(self, *, backend: str = "matplotlib") -> Any:
        """Draw the course of the fit: errors by sweep (or by stencil), and the log density of each chain.

        Parameters
        ----------
        backend : {"matplotlib", "plotly"}, default "matplotlib"

        Returns
        -------
        array of Axes, or Figure

        Examples
        --------
        >>> import numpy as np
        >>> from accams import ACCAMS
        >>> model = ACCAMS(n_stencils=3, n_clusters=2, verbose=False).fit(np.eye(30))
        >>> model.plot.trace()[0].get_ylabel()
        'training RMSE'
        """
        model = self._model("trace")
        if not model.fit_history:
            raise InputError("this model does not know how it was fitted: compressed models do not keep that")
        course = model.diagnostics()
        panels = [Panel("error", "Error", plots.error_plot(course), "")]
        if course.posterior is not None and "log_joint" in course.posterior.traces:
            panels.append(Panel("traces", "Log density of each chain", plots.traces_plot(course), ""))
        return _drawn(panels, backend, across=2, width=5.0)

    def map(
        self, *, titles: Mapping[Any, str] | None = None, names: int = 25, backend: str = "matplotlib", ax: Any = None
    ) -> Any:
        """Draw items in the plane: those that the model treats alike lie close to each other.

        The axes are the two principal ones of what the stencils say of the items. Points are as large as their items
        are active; colours are the branches of the tree of items.

        Parameters
        ----------
        titles : mapping, optional
            Names of item ids.
        names : int, default 25
            How many items are named, the most active ones first, where there is room. Plotly shows the name of every
            item that one points at.
        backend : {"matplotlib", "plotly"}, default "matplotlib"
        ax : Axes, optional
            Where to draw, with matplotlib.

        Returns
        -------
        Axes, or Figure

        Examples
        --------
        >>> import numpy as np
        >>> from accams import ACCAMS
        >>> x = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 3])
        >>> model = ACCAMS(n_stencils=2, n_clusters=2, verbose=False).fit(x)
        >>> model.plot.map(titles={0: "first"}).get_title(loc="left")
        'Items'
        """
        model = self._model("map")
        small, name = model.explainer, naming(titles)
        items, codes = small.with_data(1), small.stencils.codes
        if not len(items):
            raise InputError("no item of this model has observations: there is nothing to map")
        tree, branch = model.hierarchy(depth=1, branches=BRANCHES), np.full(len(items), -1)
        for number, child in enumerate(tree.children):
            branch[np.isin(codes.cols[items, child.stencil], child.labels)] = number
        weights = small.members.weights[1][items]
        shown = [name(x) for x in model.items[items].tolist()]
        plot = plots.map_plot(places(codes, items), weights, branch, shown, names)
        return drawn_one(Panel("map", sides_of(model)[1].capitalize(), plot, ""), backend, ax)

    def hierarchy(self, *, titles: Mapping[Any, str] | None = None, backend: str = "matplotlib") -> Any:
        """Draw the tree of items, as `hierarchy` has it.

        Parameters
        ----------
        titles : mapping, optional
            Names of item ids.
        backend : {"matplotlib", "plotly"}, default "matplotlib"

        Returns
        -------
        Axes, or Figure

        Examples
        --------
        >>> import numpy as np
        >>> from accams import ACCAMS
        >>> x = np.add.outer([0.0, 0, 2, 2], [1.0, 1, 3])
        >>> figure = ACCAMS(2, 2, verbose=False).fit(x).plot.hierarchy(backend="plotly")
        >>> figure.data[0].type
        'treemap'
        """
        model = self._model("hierarchy")
        tree, name, side = model.hierarchy(), naming(titles), sides_of(model)[1]
        if _backend(backend) == "plotly":
            return interactive([Panel("tree", side.capitalize(), plots.tree_plot(tree, name, side), "")], 1)
        return figures.tree_figure(tree, name, side, shown=True)[1]

    def _model(self, what: str) -> Any:
        model = self._fitted()
        model.need_values(f"plot.{what}")
        if not len(model.stencils):
            raise InputError(f"this model has no stencils: plot.{what} has nothing to show")
        return model

    def __repr__(self) -> str:
        return f"plots: {', '.join(name for name in vars(Plots) if not name.startswith('_'))}"


def _backend(name: str) -> str:
    if name not in BACKENDS:
        raise InputError(f"backend must be 'matplotlib' or 'plotly', not {name!r}")
    return name


def _drawn(panels: list[Panel], backend: str, across: int, width: float) -> Any:
    if _backend(backend) == "plotly":
        return interactive(panels, across)
    return np.array(figures.drawn(panels, across, width, shown=True)[1])


def drawn_one(panel: Panel, backend: str, ax: Any) -> Any:
    """Draw one panel as what the backend calls a plot."""
    if _backend(backend) == "plotly":
        if ax is not None:
            raise InputError("ax is for matplotlib: leave it out, or choose backend='matplotlib'")
        return interactive([panel], 1)
    if ax is None:
        return figures.drawn([panel], 1, 7.0, shown=True)[1][0]
    figures.draw(ax, panel)
    return ax
