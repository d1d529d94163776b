"""A panel of a compressed matrix: some of its rows, as stencils, what they leave, and cells that are kept as they are.

Any block of it can be decoded without the others.
"""

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accams.model import file, residual
from accams.model.arithmetic import Arithmetic
from accams.model.coding import Bytes, decode_ints, encode_ints
from accams.model.container import DTYPES, TYPES, Tensors
from accams.model.packing import pack_sum
from accams.model.residual import NO_SKIP, Layout, Skip, Tiles
from accams.model.stencils import StencilSum
from accams.threads import Threads

Values = NDArray[Any]
NOT_FINITE = (np.nan, np.inf, -np.inf)  # values of the kinds 1, 2 and 3; 0 are numbers
PARTS = ("kinds", "residual")
WIDTH = 256  # columns that are summed at a time, so that they stay in cache
EMPTY = np.zeros(0, np.int64)
TENSOR = 130  # bytes, at most, of what the header tells of a tensor: name, type, shape, place and checksum
CUT = "its panels are cut short or damaged"


@dataclass(frozen=True, eq=False)
class Content:
    """What a panel holds.

    Attributes
    ----------
    stencils : StencilSum
    arithmetic : Arithmetic
    steps : array or None
        Steps from predictions to values.
    kinds : array or None
        0 for numbers; 1, 2 and 3 for NaN, infinity and minus infinity. None where there are numbers only.
    layout : (Layout, Layout)
        How steps are stored, and how kinds are.
    kept_at, kept : arrays
        Positions of cells that are kept as they are, row by row, and their values.
    """

    stencils: StencilSum
    arithmetic: Arithmetic
    steps: NDArray[np.int32] | None
    kinds: Skip | None
    layouts: tuple[Layout, Layout]
    kept_at: NDArray[np.int64]
    kept: Values

    def pack(self, threads: Threads) -> "Packed":
        """Return header fields and the bytes of all tensors, one after another."""
        packed, tensors = pack_sum(self.stencils, "auto")
        fields: dict[str, Any] = {"rows": self.stencils.shape[0], "sum": packed, "values": self.arithmetic.fields()}
        coded = {"residual": self.steps, "kinds": None if self.kinds is None else self.kinds.astype(np.int32)}
        skip = {"residual": NO_SKIP if self.kinds is None else self.kinds, "kinds": NO_SKIP}
        for (name, cells), layout in zip(coded.items(), self.layouts, strict=True):
            if cells is not None:
                fields[name], own = residual.encode(cells, skip[name], layout, threads)
                tensors.update({f"{name}/{key}": x for key, x in own.items()})
        if len(self.kept_at):
            fields["kept"] = len(self.kept_at)
            tensors["kept/at"] = encode_ints(np.diff(self.kept_at, prepend=0))
            tensors["kept/values"] = self.kept.view(np.uint8) if self.kept.dtype == bool else self.kept
        parts = {name: np.ascontiguousarray(x, x.dtype.newbyteorder("<")) for name, x in tensors.items()}
        fields["parts"] = {name: [DTYPES[x.dtype.str], x.nbytes] for name, x in parts.items()}
        return Packed(fields, np.concatenate([x.view(np.uint8) for x in parts.values()]))


class Packed(NamedTuple):
    """A panel as it is stored."""

    fields: dict[str, Any]
    content: Bytes

    @property
    def nbytes(self) -> int:
        """About the bytes that it adds to a file: its content, and what the header tells of it."""
        return len(self.content) + len(json.dumps(json.dumps(self.fields))) + TENSOR

    def tensors(self) -> Tensors:
        """Return the tensors in its content; raise ValueError if they are not all of it."""
        found, at = Tensors(), 0
        for name, (kind, size) in self.fields["parts"].items():
            if type(size) is not int or not 0 <= size <= len(self.content) - at:
                raise ValueError(CUT)
            found[name] = self.content[at : at + size].view(TYPES[kind])
            at += size
        if at != len(self.content):
            raise ValueError(CUT)
        return found


class Panel:
    """A panel of a file, of which blocks are decoded."""

    def __init__(self, packed: Packed, columns: int, dtype: np.dtype[Any]) -> None:
        fields = packed.fields
        if type(fields["rows"]) is not int or fields["rows"] < 1 or packed.content.dtype != np.uint8:
            raise ValueError(CUT)
        self.shape = fields["rows"], columns
        self.dtype, self._fields, self._tensors = dtype, fields, packed.tensors()
        self.arithmetic = Arithmetic.of(fields["values"], dtype, float(fields["sum"]["offset"]))

    def block(self, rows: slice, cols: slice, threads: Threads) -> Values:
        """Return the values of a block; starts and stops are given, steps are 1."""
        tiles, kinds = self._tiles, None
        if "kinds" in tiles:
            kinds = _cut(*tiles["kinds"].block(rows, cols, NO_SKIP, threads), rows, cols)
        steps = None
        if "residual" in tiles:
            skip = self._skip_of_tiles(rows, cols, threads)
            steps = _cut(*tiles["residual"].block(rows, cols, skip, threads), rows, cols)
        out = self.arithmetic.values(self.arithmetic.predicted(self.base.block(rows, cols, threads)), steps)
        if kinds is not None:
            for kind, value in enumerate(NOT_FINITE, start=1):
                out[kinds == kind] = value
        at, values = self._kept
        if len(at):
            i, j = np.divmod(at, self.shape[1])
            inside = (i >= rows.start) & (i < rows.stop) & (j >= cols.start) & (j < cols.stop)
            out[i[inside] - rows.start, j[inside] - cols.start] = values[inside]
        return out

    def _skip_of_tiles(self, rows: slice, cols: slice, threads: Threads) -> Skip:
        """Return which cells have no steps, for the tiles of the residual that hold a block."""
        if "kinds" not in self._tiles:
            return NO_SKIP
        (height, width), (m, n) = self._tiles["residual"].layout.tile, self.shape
        top, left = rows.start // height * height, cols.start // width * width
        more = slice(top, min(-(-rows.stop // height) * height, m)), slice(left, min(-(-cols.stop // width) * width, n))
        found = _cut(*self._tiles["kinds"].block(*more, NO_SKIP, threads), *more)
        if ((found < 0) | (found > len(NOT_FINITE))).any():
            raise ValueError(CUT)
        return np.ascontiguousarray(found, np.uint8)

    @cached_property
    def stencils(self) -> StencilSum:
        """The stencils of these rows."""
        own = {name: x for name, x in self._tensors.items() if "/" not in name}
        return file.unpack_sum(self._fields["sum"], own, self.shape)

    @cached_property
    def base(self) -> "Base":
        """The stencils in ticks."""
        return Base.of(self.stencils, self.arithmetic.tick)

    @cached_property
    def _tiles(self) -> dict[str, Tiles]:
        found = {}
        for part in PARTS:
            if part in self._fields:
                own = {name.partition("/")[2]: x for name, x in self._tensors.items() if name.startswith(f"{part}/")}
                found[part] = Tiles(self._fields[part], own, self.shape)
        if ("residual" in found) != (self.arithmetic.step > 0):
            raise ValueError(CUT)
        return found

    @cached_property
    def _kept(self) -> tuple[NDArray[np.int64], Values]:
        n = self._fields.get("kept", 0)
        if not n:
            return EMPTY, np.zeros(0, self.dtype)
        steps, values = decode_ints(self._tensors["kept/at"], n), self._tensors["kept/values"]
        at = np.cumsum(steps, dtype=np.int64)
        if values.shape != (n,) or values.dtype != (np.uint8 if self.dtype == bool else self.dtype):
            raise ValueError(CUT)
        if (steps < 0).any() or (steps[1:] < 1).any() or at[-1] >= self.shape[0] * self.shape[1]:
            raise ValueError(CUT)
        return at, values.astype(self.dtype)


def _cut(cells: NDArray[np.int32], origin: tuple[int, int], rows: slice, cols: slice) -> NDArray[np.int32]:
    """Return a block of tiles that begin at `origin`."""
    return cells[rows.start - origin[0] : rows.stop - origin[0], cols.start - origin[1] : cols.stop - origin[1]]


@dataclass(frozen=True, eq=False)
class Base:
    """Stencils laid out for whole blocks, with entries in ticks."""

    rows: NDArray[np.uint16]  # (stencil, row)
    cols: NDArray[np.uint16]
    templates: NDArray[np.int32]
    starts: NDArray[np.int64]
    widths: NDArray[np.int64]

    @classmethod
    def of(cls, stencils: StencilSum, tick: int) -> "Base":
        """Return the stencils with entries rounded to ticks."""
        whole = [np.rint(np.ldexp(T.astype(np.float64), -tick)) for T in stencils.templates]
        if sum(float(np.abs(T).max()) for T in whole) >= 1 << 31:
            raise ValueError("the entries of its stencils are too large")
        flat = np.concatenate([np.zeros(0), *(T.ravel() for T in whole)]).astype(np.int32)
        starts = np.cumsum([0, *(T.size for T in whole)])[:-1].astype(np.int64)
        labels = tuple(np.zeros((len(whole), size), np.uint16) for size in stencils.shape)
        for p, stencil in enumerate(stencils.stencils):
            if max(stencil.template.shape) > 1 << 16:
                raise ValueError("its stencils have too many clusters")
            labels[0][p], labels[1][p] = stencil.row_labels, stencil.col_labels
        return cls(labels[0], labels[1], flat, starts, np.array([T.shape[1] for T in whole], np.int64))

    def block(self, rows: slice, cols: slice, threads: Threads) -> NDArray[np.int32]:
        """Return the sums of a block in ticks."""
        from accams.kernels.whole import add_lines

        out = np.zeros((rows.stop - rows.start, cols.stop - cols.start), np.int32)
        if len(self.starts):
            r, c = (np.ascontiguousarray(x[:, part]) for x, part in ((self.rows, rows), (self.cols, cols)))
            ranges = [(lo, min(lo + WIDTH, out.shape[1])) for lo in range(0, out.shape[1], WIDTH)]
            threads.run(add_lines, ranges, r, self.templates, self.starts, self.widths, c, out)
        return out


def tick_for(stencils: StencilSum) -> int:
    """Return the exponent of a tick with which sums fit into 32 bits."""
    largest = sum(float(np.abs(T).max()) for T in stencils.templates)
    return int(np.frexp(largest)[1]) - 30 if largest else 0
