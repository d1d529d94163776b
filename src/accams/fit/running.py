"""Results collected during a run in bounded memory: running means at given cells, and draws of the model."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from accams.model.posterior import Draw

Floats = NDArray[np.float64]
BLOCKS = 32  # maximum number of blocks of sweeps
FIRST_INTERVAL = 1  # initial number of sweeps from draw to draw, if not given


@dataclass
class MeanBlock:
    """Sums of predictions (chain, cell) and of their squares over the sweeps [first, last)."""

    first: int
    last: int
    sums: Floats
    squares: Floats

    def joined(self, after: "MeanBlock") -> "MeanBlock":
        return MeanBlock(self.first, after.last, self.sums + after.sums, self.squares + after.squares)


@dataclass
class Running:
    """Running means of each chain's predictions at some cells.

    Sums are kept per block of sweeps, because the burn-in is only known at the end of a run; with too many blocks,
    neighbours are joined. Differences from `centre` (the mean of the first sweep) are summed, so that the variance does
    not suffer from cancellation.
    """

    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    centre: float | None = None
    blocks: list[MeanBlock] = field(default_factory=list)
    width: int = 1

    def add(self, sweep: int, predictions: Floats) -> None:
        """Add the predictions (chain, cell) of one sweep."""
        if self.centre is None:
            self.centre = float(predictions.mean()) if predictions.size else 0.0
        x = predictions - self.centre
        new = MeanBlock(sweep, sweep + 1, x, x * x)
        last = self.blocks[-1] if self.blocks else None
        if last is not None and last.last - last.first < self.width:
            self.blocks[-1] = last.joined(new)
        else:
            self.blocks.append(new)
        if len(self.blocks) > BLOCKS:
            pairs = [self.blocks[p : p + 2] for p in range(0, len(self.blocks), 2)]
            self.blocks = [pair[0].joined(pair[1]) if len(pair) == 2 else pair[0] for pair in pairs]
            self.width *= 2

    def since(self, burn_in: int) -> tuple[Floats, Floats, int]:
        """Return mean and mean square of each chain (relative to `centre`) and their number of sweeps.

        They include the blocks that begin at or after `burn_in`, or else the last block.
        """
        kept = [block for block in self.blocks if block.first >= burn_in] or self.blocks[-1:]
        sweeps = sum(block.last - block.first for block in kept)
        total, squares = sum(block.sums for block in kept), sum(block.squares for block in kept)
        return np.asarray(total / sweeps), np.asarray(squares / sweeps), sweeps

    def combined(self, burn_in: int) -> tuple[Floats, Floats]:
        """Return mean and variance over all chains and the sweeps since `burn_in`."""
        means, squares, _ = self.since(burn_in)
        mean = means.mean(axis=0)
        return mean + (self.centre or 0.0), np.maximum(squares.mean(axis=0) - mean * mean, 0.0)


@dataclass
class Keeper:
    """Evenly spaced draws of every chain; with too many since the burn-in, every second one is dropped.

    `interval` is the number of sweeps from one draw to the next; a `fixed` one does not change.
    """

    most: int
    interval: int = FIRST_INTERVAL
    fixed: bool = False
    draws: list[list[Draw]] = field(default_factory=list)  # one list per sweep kept

    def wants(self, sweep: int) -> bool:
        return (sweep + 1) % self.interval == 0

    def add(self, draws: list[Draw], burn_in: int = 0) -> None:
        """Add one draw per chain, and drop those from before `burn_in`, which may grow from call to call."""
        self.draws = [each for each in self.draws if each[0].sweep >= burn_in] + [draws]
        if not self.fixed and sum(map(len, self.draws)) > self.most and len(self.draws) > 1:
            self.interval *= 2
            self.draws = [each for each in self.draws if self.wants(each[0].sweep)]

    def since(self, burn_in: int) -> list[Draw]:
        """Return the draws of sweeps from `burn_in` on, or else the last ones."""
        kept = [draws for draws in self.draws if draws[0].sweep >= burn_in] or self.draws[-1:]
        return [draw for draws in kept for draw in draws]
