"""Change bytes, JSON, arrays and tables at random, in ways that files go wrong or lie."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

Random = np.random.Generator
VALUES = [
    None, True, False, 0, -1, 1, 2, 3, 7, 12, 255, 256, 1000, 10**6, 2**31, 2**40, 2**47, 2**63, 10**30, 0.5, -0.0,
    1e-320, 1e308, -1e300, float("nan"), float("inf"), -float("inf"), "", "x", "json", "integers", "positions", "auto",
    "<M8[s/0]", "(1,i4", "f4,[",
    "x" * 5000, "a\nb", "\u202e\U0001f600", "../../x", [], [1], [[1, 2]], [0] * 300, [[[[[[[[[[]]]]]]]]]], {},
    {"a": 1}, {"tuple": [1]}, {"": None},
]  # fmt: skip
NUMBERS = [0, 1, -1, 2, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, -(2**31), 2**40, 2**62, np.nan, np.inf, 1e38]
TOKENS = [
    "", ",", "\t", "::", ";", " ", "  ", '"', '""', "'", "\n", "\r\n", "\r", "\0", "\ufeff", "\u2028", "é",
    "\U0001f600", "\ud800", "-", "nan", "NaN", "inf", "-inf", "1e999", "1e-400", "0x10", "1_000", "9" * 25, "9" * 400,
    "1.5", "-0", "+3", "1,5", "null", "None", "true", "2020-01-01", "2020-01-01T00:00:00Z", "user", "item", "rating",
    "#", "=1+1", "x" * 3000, "\\", "\\N", "[", "{",
]  # fmt: skip
TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "?", "c8", "M8[s]"]


def pick(random: Random, options: Any) -> Any:
    """One of these, whatever they are."""
    return options[int(random.integers(len(options)))]


def changed_bytes(content: bytes, random: Random) -> bytes:
    """The content with a few bytes changed, put in, left out, doubled, blanked, exchanged or cut off."""
    out = bytearray(content or b"\0")
    a, b = sorted(int(x) for x in random.integers(0, len(out), 2))
    size = int(random.integers(1, 65))
    match int(random.integers(8)):
        case 0:
            for position in random.integers(0, len(out), random.integers(1, 9)):
                out[position] = random.integers(256)
        case 1:
            out[a:a] = random.bytes(size)
        case 2:
            del out[a : a + size]
        case 3:
            size = min(size, b - a, len(out) - b)
            out[a : a + size], out[b : b + size] = out[b : b + size], out[a : a + size]
        case 4:
            out[a:a] = out[a : a + size]
        case 5:
            out[a : a + size] = bytes(len(out[a : a + size]))
        case 6:
            out[a:b] = out[a:b][::-1]
        case _:
            del out[a:]
    return bytes(out)


def ways(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all values within JSON, those that hold others included."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from ways(each, (*path, key))


def changed_json(value: Any, random: Random, but: tuple[str, ...] = ("checksums",)) -> Any:
    """The value with one of its parts replaced, nudged, left out, doubled or exchanged with another."""
    value = copy.deepcopy(value)
    possible = [way for way in ways(value) if way[0] not in but]
    if not possible:
        return pick(random, VALUES)
    *way, last = pick(random, possible)
    inner = value
    for key in way:
        inner = inner[key]
    number = isinstance(inner[last], (int, float))
    match int(random.integers(6)):
        case 0:
            del inner[last]
        case 1 if number:
            inner[last] += int(random.integers(-3, 4))
        case 2 if isinstance(inner, list):
            inner.insert(last, copy.deepcopy(inner[last]))
        case 3 if isinstance(inner, dict):
            inner[last] = copy.deepcopy(inner[pick(random, list(inner))])
        case 4 if number and random.random() < 0.5:
            inner[last] = inner[last] * pick(random, [-1, 2, 10, 1e6, 0.5])
        case _:
            inner[last] = copy.deepcopy(pick(random, VALUES))
    return value


def changed_array(x: np.ndarray, random: Random) -> np.ndarray:
    """The array with some numbers replaced, or cut, doubled, reversed, of another type or another shape."""
    flat = x.reshape(-1)
    match int(random.integers(8)):
        case 0:
            return flat[: random.integers(len(flat) + 1)]
        case 1:
            return np.concatenate([flat, flat])
        case 2:
            raw = flat.copy().view(np.uint8)
            kind = np.dtype(pick(random, TYPES))
            return raw[: len(raw) // kind.itemsize * kind.itemsize].view(kind)
        case 3:
            return x.reshape(*x.shape, 1) if random.random() < 0.5 else flat[::-1].reshape(x.shape)
        case 4 if x.dtype.kind in "iufb":
            with np.errstate(all="ignore"):
                return x.astype(pick(random, TYPES[:11]))
        case _:
            return _other_numbers(x, random)


def _other_numbers(x: np.ndarray, random: Random) -> np.ndarray:
    out = x.copy().reshape(-1)
    for position in random.integers(0, max(len(out), 1), random.integers(1, 5)) if len(out) else ():
        lie = pick(random, NUMBERS)
        with np.errstate(all="ignore"):
            if random.random() < 0.4:
                raw = out.view(np.uint8)
                raw[int(random.integers(len(raw)))] = random.integers(256)
            elif out.dtype.kind == "f":
                out[position] = lie
            elif out.dtype.kind in "iu" and np.isfinite(lie):
                info = np.iinfo(out.dtype)
                out[position] = min(max(int(lie), info.min), info.max)
    return out.reshape(x.shape)


def changed_arrays(arrays: dict[str, np.ndarray], random: Random) -> dict[str, np.ndarray]:
    """The arrays with one of them changed, left out, or replaced by another."""
    if not arrays:
        return arrays
    name = pick(random, sorted(arrays))
    match int(random.integers(10)):
        case 0:
            return {other: x for other, x in arrays.items() if other != name}
        case 1:
            return {**arrays, name: arrays[pick(random, sorted(arrays))]}
        case _:
            return {**arrays, name: changed_array(arrays[name], random)}


def changed_text(text: str, random: Random) -> str:
    """The table with tokens put in, cells replaced, lines doubled, exchanged, cut or left out."""
    lines = text.split("\n")
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(len(lines)))
        cells = lines[at].split(",")
        match int(random.integers(7)):
            case 0:
                cells[int(random.integers(len(cells)))] = pick(random, TOKENS)
                lines[at] = ",".join(cells)
            case 1:
                place = int(random.integers(len(lines[at]) + 1))
                lines[at] = lines[at][:place] + pick(random, TOKENS) + lines[at][place:]
            case 2:
                lines.insert(at, lines[int(random.integers(len(lines)))])
            case 3:
                lines[at] = ",".join([*cells, pick(random, TOKENS)])
            case 4:
                lines[at] = ",".join(cells[:-1])
            case 5:
                lines = lines[:at] or [""]
            case _:
                old, new = pick(random, [",", "\n", "1", "user"]), pick(random, TOKENS)
                lines = "\n".join(lines).replace(old, new, int(random.integers(1, 100))).split("\n")
    return "\n".join(lines)
