"""State of one chain in a shard: the residual of some rows (or some columns)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from accams.data.weights import to_ticks
from accams.engine.cpu import MemoryOrder, SparsePasses
from accams.engine.passes import Data
from accams.engine.ray.shards import AxisShard, MatrixInfo
from accams.model.stencils import Labels
from accams.threads import Threads


class ShardData(Data):
    """Data of some rows (or some columns) of a matrix, as the `cpu` engine has those of a whole one."""

    def __init__(self, shard: AxisShard, matrix: MatrixInfo, threads: Threads) -> None:
        self.shard, size = shard, shard.last - shard.first
        shape = (size, matrix.shape[1]) if shard.axis == 0 else (matrix.shape[0], size)
        super().__init__(shape, matrix.uniform, matrix.grid, threads)
        weights = shard.weights
        if weights is not None and matrix.grid.weight_step != matrix.weight_step:
            weights = to_ticks(weights, matrix.grid.weight_step / matrix.weight_step)
        self.order = MemoryOrder(shard.starts, shard.partners, weights, threads.split(shard.starts) or [(0, 0)])


class ShardState(SparsePasses):
    """Residual of the rows (or columns) first .. last of a matrix, and labels of all of the other axis.

    Labels, weights of rows and effects are passed in for the whole matrix.
    """

    def __init__(self, data: ShardData) -> None:
        shard = self.shard = data.shard
        super().__init__(data, {shard.axis: data.order}, {shard.axis: data.grid.ticks_of(shard.values)})
        self.axis = shard.axis
        self.first = (shard.first, 0) if shard.axis == 0 else (0, shard.first)

    def own(self, axis: int, values: NDArray[Any]) -> NDArray[Any]:
        """Return the part of an array with one value per row (column) of the matrix that belongs to this shard."""
        return values[self.shard.first : self.shard.last] if axis == self.axis else values

    def set_labels(self, axis: int, labels: Labels) -> None:
        super().set_labels(axis, self.own(axis, labels))

    def set_row_ticks(self, weights: NDArray[np.int32]) -> None:
        super().set_row_ticks(self.own(0, weights))

    def add_effects(self, axis: int, change: NDArray[np.int32]) -> None:
        super().add_effects(axis, self.own(axis, change))
