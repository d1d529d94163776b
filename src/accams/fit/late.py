"""Items that come after the fit: their lines in an item map whose other lines stay as they are.

Nobody can choose what is not there yet. A new item that few chose may be one that few had the chance to choose, so its
column is that of a regression over the users who had that chance, a share e of all. It minimises

    |x - X b|^2 + lambda |b|^2 over these users, or about b' (e X'X + lambda I) b - 2 c' b with X of all users,

where c = X' x. (With dropout X'X is what dropout makes of it: see `accams.fit.regression`.) Few choices so give short
columns, and those of few among few give longer ones than those of few among all. As a part of a history the item gets
the row that leaves least of what those who chose it have besides: a step of the same regression, of all new rows at
once, with all other rows and all columns fixed. A stencil sum gets the labels of the best lines that its templates
have, as in `accams.fit.tail`; a dense map gets the lines themselves.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accams.fit.items import among, gram_of, masses_of
from accams.fit.regression import Ridge, dropped
from accams.fit.tail import PASSES, Options, error_of_columns, on_lines
from accams.kernels.tail import choose_labels
from accams.model.interactions import Interactions
from accams.model.itemmap import NOBODY, ItemMap, levels_of, masses_at, scales_of
from accams.model.stencils import Stencil, StencilSum, label_type

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
STEPS = 4  # of a factor of two, in shares of users: items whose shares are about equal have one regression
BLOCK = 1 << 24  # cells of new items by items
PRIOR = 0.5  # choices of a usual item, by users who are added to those who had the chance to choose a new one
FEWEST = 0.5  # share of the users whom the map was learned from whose choices must be at hand
MOST = 0.5  # share of the map, by how often its items were chosen, that can be placed again


@dataclass(frozen=True)
class Late:
    """Items that are to be placed.

    Attributes
    ----------
    items : positions
        In ascending order.
    choices : Interactions
        Who chose what, of all users and items.
    had_chance : array
        How many users had the chance to choose each of these items.
    """

    items: Positions
    choices: Interactions
    had_chance: Floats

    @classmethod
    def of(
        cls, item_map: ItemMap, items: Positions, choices: Interactions, before: Floats, active: Positions
    ) -> "Late":
        """From who chose what.

        Those who had the chance are the `active` users, who chose something since the item came, and those who had it
        before: as many as the mass of the item then (`before`) and its popularity in the map say. For an item that is
        new to the map, as many as would choose a usual item half a time are added, lest the choices of a handful of
        users count for more than they say. Items of the map are not placed again where these are most of it: there
        would be little left to place them by.
        """
        known, learned = item_map.levels[items] > NOBODY, masses_at(item_map.levels)
        if learned[items].sum() > MOST * learned.sum():
            items, before, active, known = items[~known], before[~known], active[~known], known[~known]
        usual = item_map.popularity[item_map.chosen]
        prior = PRIOR / float(usual.mean()) if len(usual) else PRIOR
        choosers = np.bincount(choices.columns, minlength=item_map.size)[items]
        new, earlier = np.maximum(active, choosers) + prior, before / np.where(known, item_map.popularity[items], 1.0)
        return cls(items, choices, np.where(known, np.maximum(active + earlier, 1.0), new))

    @cached_property
    def n_users(self) -> int:
        """Users who chose something."""
        return max(int(np.count_nonzero(np.diff(self.choices.starts))), 1)

    @property
    def shares(self) -> Floats:
        """Share of the users who had the chance to choose each item."""
        steps = np.rint(STEPS * np.log2(np.minimum(self.had_chance / self.n_users, 1.0)))
        return np.asarray(np.exp2(steps / STEPS))

    def is_enough_for(self, item_map: ItemMap) -> bool:
        """Return whether there are the choices of most of the users whom a map was learned from."""
        return self.n_users >= FEWEST * item_map.n_users


def placed(item_map: ItemMap, late: Late) -> ItemMap:
    """Return a map with these items in it, as a part of histories and as candidates; those that nobody chose stay out.

    The lines of all other items stay as they are.
    """
    masses = masses_of(late.choices, item_map.size)[late.items]
    some = masses > 0.0
    items, masses, shares = late.items[some], masses[some], late.shares[some]
    if not len(items):
        return item_map
    levels = item_map.levels.copy()
    levels[items] = NOBODY
    head = np.flatnonzero((levels > NOBODY) & _speaking(item_map))
    inside = np.zeros(len(levels), np.bool_)
    inside[head], inside[items] = True, True
    choices = late.choices.only(inside[late.choices.columns])
    levels[items] = levels_of(masses / shares * (item_map.n_users / late.n_users))
    made = replace(item_map, levels=levels)
    problem = _Problem(made, choices, head, items, shares)
    if item_map.dense is not None:
        return replace(made, dense=_dense(problem, item_map.dense))
    assert item_map.stencils is not None
    return replace(made, stencils=_labelled(problem, item_map.stencils))


def _speaking(item_map: ItemMap) -> NDArray[np.bool_]:
    """Return whether rows of the map are other than zeros: in a large catalogue those of the long tail are not."""
    if item_map.stencils is None:
        return np.ones(item_map.size, np.bool_)
    found = np.zeros(item_map.size, np.bool_)
    for s in item_map.stencils.stencils:
        found |= np.any(s.template != 0.0, axis=1)[s.row_labels]
    return found


@dataclass(frozen=True)
class _Problem:
    item_map: ItemMap
    choices: Interactions  # of the items in it and of those that are placed
    head: Positions
    items: Positions
    shares: Floats

    @property
    def ridge(self) -> Ridge:
        return Ridge(self.item_map.penalty, self.item_map.dropout)

    def together(self, some: slice) -> Floats:
        """Return X'X under dropout between some items that are placed and all others that are not."""
        from scipy import sparse

        size, own = self.item_map.size, self.choices
        weights = np.ones(len(own)) if own.weights is None else own.weights.astype(np.float64)
        X = sparse.csr_array((weights, own.columns, own.starts), shape=(len(own.starts) - 1, size)).tocsc()
        both = (X[:, self.items[some]].T @ X[:, self.head]).toarray()
        return np.asarray((1.0 - self.ridge.dropout) * both)

    def rows_for(self, some: slice, left: Floats) -> Floats:
        """Return rows of some items that are placed, given what is left of the others' choices by who chose each.

        Together: those who choose one new item often choose another, and what they have besides must count once.
        """
        gram = gram_of(among(self.choices, self.items[some], self.item_map.size), len(left))
        metric = dropped(gram, self.ridge.dropout, overwrite=True)
        metric[np.diag_indices_from(metric)] += self.ridge.penalty
        return np.asarray(np.linalg.solve(metric, left), np.float64)

    def blocks(self) -> list[slice]:
        """Return ranges of the items that are placed, each of which fits into memory."""
        step = max(1, BLOCK // max(len(self.head), 1))
        return [slice(lo, lo + step) for lo in range(0, len(self.items), step)]


def _dense(problem: _Problem, old: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the whole map with the lines of these items."""
    from scipy.linalg import cho_factor, cho_solve

    head, items, penalty, out = problem.head, problem.items, problem.ridge.penalty, old.copy()
    out[items], out[:, items] = 0.0, 0.0
    gram = dropped(gram_of(among(problem.choices, head, len(old)), len(head)), problem.ridge.dropout, overwrite=True)
    of_head, both = old[np.ix_(head, head)], problem.together(slice(None))
    for share in np.unique(problem.shares):
        metric = share * gram
        metric[np.diag_indices_from(metric)] += penalty
        some = problem.shares == share
        out[np.ix_(head, items[some])] = cho_solve(cho_factor(metric, overwrite_a=True), both[some].T)
    out[np.ix_(items, head)] = problem.rows_for(slice(None), both - both @ of_head)
    return out


def _labelled(problem: _Problem, old: StencilSum) -> StencilSum:
    """Return the stencil sum with the labels of these items: those of their columns, then those of their rows."""
    if not len(old):
        return old
    stencils = [_with_zeros(s) for s in old.stencils]
    templates, size = [s.template.astype(np.float64) for s in stencils], problem.item_map.size
    each, scales = np.arange(size), scales_of(problem.item_map.levels, problem.ridge.penalty)
    rows = Options.of([s.row_labels for s in stencils], [len(T) for T in templates], each, size)
    cols = Options.of([s.col_labels for s in stencils], [T.shape[1] for T in templates], each, size)
    told, held, linear = error_of_columns(
        rows, templates, problem.head, problem.items, problem.choices, scales, problem.ridge
    )
    for share in np.unique(problem.shares):
        some = problem.shares == share
        cols.labels[problem.items[some]] = _chosen(np.ascontiguousarray(linear[some]), share * told + held, cols)
    quadratic, linear = _error_of_rows(problem, cols, old, linear, scales, templates)
    rows.labels[problem.items] = _chosen(linear, quadratic, rows)
    made = (_with_labels(s, rows.labels[:, p], cols.labels[:, p]) for p, s in enumerate(stencils))
    return StencilSum(old.shape, 0.0, tuple(made))


def _chosen(linear: Floats, quadratic: Floats, options: Options) -> Positions:
    labels = np.zeros((len(linear), len(options.first) - 1), np.int64)
    free = np.zeros(options.number)  # few items: their bits do not matter
    choose_labels(0, len(linear), linear, np.ascontiguousarray(quadratic), options.first, free, PASSES, labels)
    return labels


def _error_of_rows(
    problem: _Problem, cols: Options, old: StencilSum, linear: Floats, scales: Floats, templates: list[Floats]
) -> tuple[Floats, Floats]:
    """Return N and, for each item, c: a row with labels whose indicator is v is v'Nv - 2 c'v from the best, squared.

    `linear` is what columns are chosen by: for each column label, the score that those who chose the item have there,
    summed. Rows are scaled, and compared in the columns of items with rows of their own: others, the long tail of a
    large catalogue, would cost more than they say.
    """
    from scipy import sparse

    head, items = problem.head, problem.items
    places = (cols.first[:-1] + cols.labels[head]).ravel()
    begins = np.arange(0, len(places) + 1, len(templates))
    labels = sparse.csr_array((np.ones(len(places)), places, begins), shape=(len(head), cols.number))
    diagonal = old.codes.predict(head, head) / scales[head]
    wanted = np.zeros((len(items), cols.number))
    for some in problem.blocks():
        both = problem.together(some)
        left = both * (1.0 + diagonal) - (labels @ linear[some].T).T
        wanted[some] = problem.rows_for(some, (labels.T @ left.T).T)
    wanted *= scales[items][:, None]
    turned, counts = [T.T for T in templates], (labels.T @ labels).toarray()
    quadratic = on_lines(turned, on_lines(turned, counts, cols.first).T, cols.first)
    return quadratic, on_lines(turned, wanted, cols.first)


def _with_zeros(stencil: Stencil) -> Stencil:
    """Return a stencil whose last row label and last column label are of zeros: it has nothing to say there."""
    T = stencil.template
    more = int(T[-1].any()), int(T[:, -1].any())
    return stencil if more == (0, 0) else replace(stencil, template=np.pad(T, ((0, more[0]), (0, more[1]))))


def _with_labels(stencil: Stencil, rows: Positions, cols: Positions) -> Stencil:
    own, other = (x.astype(label_type(k)) for x, k in zip((rows, cols), stencil.template.shape, strict=True))
    return replace(stencil, row_labels=own, col_labels=other)
