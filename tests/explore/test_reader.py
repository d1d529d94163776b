"""The reader of model files in JavaScript reads what the library writes, and refuses what is damaged."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
from explored_models import KINDS, M, N, labelled, model, random_spread, random_sum
from pages import HERE, PAGE, needs_node, run_node

from accams import Model, StencilSum
from accams.data.ids import Index
from accams.errors import AccamsError
from accams.fitted.files import to_bytes
from accams.fitted.loading import load
from accams.model import container, file

pytestmark = needs_node
GOLDEN = Path(__file__).parents[1] / "model" / "golden"
CODINGS = ("auto", "entropy", "packed")
STORAGES: tuple[Any, ...] = ("float32", "float16", "int8", "int4", 0.01)


def read(contents: list[bytes], *how: str) -> list[Any]:
    texts = [base64.b64encode(content).decode() for content in contents]
    return run_node(HERE / "read.mjs", PAGE, *how, given=texts)


def cells_of(one: StencilSum) -> list[float]:
    i, j = (np.concatenate([[-1], np.arange(min(size, 30))]) for size in one.shape)
    return one.codes.predict(np.repeat(i, len(j)), np.tile(j, len(i))).tolist()


def check_sum(one: StencilSum, found: dict[str, Any]) -> None:
    assert found["shape"] == list(one.shape)
    assert found["offset"] == one.offset
    assert [x["entries"] for x in found["templates"]] == [T.ravel().tolist() for T in one.templates]
    assert found["rowLabels"] == [x.tolist() for x in one.row_labels]
    assert found["colLabels"] == [x.tolist() for x in one.col_labels]
    assert (found["unseenRows"], found["unseenCols"]) == (one.unseen_rows.tolist(), one.unseen_cols.tolist())
    for name, effects in (("rowEffects", one.row_effects), ("colEffects", one.col_effects)):
        assert found[name] == (None if effects is None else effects.tolist())


def test_every_coding_and_storage() -> None:
    sums = [random_sum(sizes) for sizes in ([], [(3, 2)], [(4, 4)] * 3, [(1, 1), (9, 30), (200, 3), (300, 2)])]
    sums += [random_sum([(3, 5), (2, 2)], effects=True), _on_a_grid(), _mixed()]
    contents, expected = [], []
    for one in sums:
        for coding in CODINGS:
            contents.append(file.to_bytes(one, coding))
            expected.append(one)
        for storage in STORAGES[1:]:
            expected.append(one.rounded(storage))
            contents.append(file.to_bytes(expected[-1]))
    kinds = {name for content in contents for name in container._read_header(memoryview(content))[1]}
    for one, answer in zip(expected, read(contents), strict=True):
        check_sum(one, answer["model"]["stencils"])
        assert np.allclose(answer["cells"], cells_of(one), atol=1e-12)
    assert {"whole", "steps", "templates", "mantissas", "exponents", "models", "unseen", "row_effects"} <= kinds


def _on_a_grid() -> StencilSum:
    """Entries that are integers times a small power of two, as fitted ones are."""
    one, random = StencilSum((M, N), -2.0), np.random.default_rng(0)
    for shift in (3, 30, -1):
        template = random.integers(-9000, 9000, (20, 20)) / 2.0**shift
        one = one.append(template, random.integers(20, size=M), random.integers(20, size=N))
    return one


def _mixed() -> StencilSum:
    """Some templates with steps, some without."""
    one, two = random_sum([(3, 2), (2, 5)]), random_sum([(4, 4)]).rounded("int8")
    return StencilSum(one.shape, one.offset, (*one.stencils, *two.stencils), one.unseen_rows, one.unseen_cols)


def test_all_parts() -> None:
    models = [model(kind) for kind in KINDS]
    contents = [to_bytes(of, interactions=of.interactions is not None) for of in models]
    for of, answer in zip(models, read(contents), strict=True):
        found = answer["model"]
        check_sum(of.stencils, found["stencils"])
        assert (found["predicts"], found["sigma"], found["zeroWeight"]) == (of.predicts, of.sigma, of.zero_weight)
        assert found["range"] == list(of.value_range)
        assert found["clip"] == (None if of.clip is None else list(of.clip))
        _check_interactions(of, found["interactions"])
        if of.spread is not None:
            assert found["spread"]["variances"] == of.spread.table.ravel().tolist()
            assert found["spread"]["rowClasses"] == of.spread.row_classes.tolist()
        if found["activity"] is not None:
            assert np.allclose(found["activity"]["rows"], of.activity[0])  # type: ignore[index]
            assert np.allclose(found["activity"]["cols"], of.activity[1])  # type: ignore[index]
        if of.item_map is not None:
            assert found["itemMap"]["levels"] == of.item_map.levels.tolist()
            if of.item_map.stencils is not None:
                check_sum(of.item_map.stencils, found["itemMap"]["stencils"])


def _check_interactions(of: Model, found: dict[str, Any] | None) -> None:
    if of.interactions is None:
        assert found is None
        return
    own = of.interactions.ordered()
    assert found is not None
    assert (found["starts"], found["columns"]) == (own.starts.tolist(), own.columns.tolist())
    assert found["weights"] == (None if own.weights is None else own.weights.tolist())


def test_ids() -> None:
    one = random_sum([(2, 2)])
    large = [2**62 - p for p in range(M)]
    contents = []
    for rows in (None, list(range(5, 5 + M)), [-(3**p) % 10007 for p in range(M)], large):
        contents.append(
            to_bytes(Model(stencils=one, row_index=Index(rows, M), col_index=Index(None, N), value_range=(1.0, 5.0)))
        )
    contents.append(to_bytes(labelled(one, "text")))
    found = [answer["model"]["ids"]["row"] for answer in read(contents)]
    assert found[0] is None
    assert found[1:3] == [list(range(5, 5 + M)), [-(3**p) % 10007 for p in range(M)]]
    assert found[3] == [str(x) for x in large]  # numbers of JavaScript would lose digits
    assert found[4] == "json"


def test_files_of_earlier_versions() -> None:
    paths = [p for p in sorted(GOLDEN.glob("*.accams")) if not p.name.startswith("history")]
    assert len(paths) > 10
    for path, answer in zip(paths, read([p.read_bytes() for p in paths]), strict=True):
        of = load(path)
        if of.posterior is not None:
            assert "compress this one first" in answer["refused"]
        else:
            check_sum(of.stencils, answer["model"]["stencils"])
            assert np.allclose(answer["cells"], cells_of(of.stencils), atol=1e-12)


def test_numbers_that_json_does_not_have() -> None:
    header = {"kind": "model", "format": 2, "shape": [2, 2], "parts": {}}
    fields, tensors = file.pack_sum(StencilSum((2, 2), 1.0), "auto")
    fit = {"estimator": 'A "quoted\\" NaN', "parameters": {"x": float("nan")}, "training": {"y": float("-inf")}}
    header["parts"] = {"stencils": fields, "fit": {**fit, "optional": True}}
    content = container.to_bytes(header, {f"stencils/{name}": x for name, x in tensors.items()})
    [answer] = read([content])
    assert answer["model"]["fit"] == {**fit, "parameters": {"x": None}, "training": {"y": None}, "optional": True}


def test_unknown_parts() -> None:
    fields, tensors = file.pack_sum(StencilSum((2, 2), 1.0), "auto")
    named = {f"stencils/{name}": x for name, x in tensors.items()}
    header = {"kind": "model", "format": 2, "shape": [2, 2]}
    more = [
        {"new": {"optional": True}},
        {"new": {}},
        {"spread": {"version": 2, "optional": True}},
        {"ids": {"version": 2}},
    ]
    contents = [container.to_bytes({**header, "parts": {"stencils": fields, **each}}, named) for each in more]
    contents += [container.to_bytes({**header, "format": 3, "parts": {}}, named), b"", b"PK\3\4" * 10]
    refused = ["refused" in answer for answer in read(contents)]
    assert refused == [False, True, False, True, True, True, True]


def small_files() -> list[bytes]:
    one = StencilSum((6, 5), 1.0).append([[0.5, -0.5], [0.25, 0.1]], [0, 1, 1, 0, 1, 0], [1, 1, 0, 0, 1])
    of = Model(stencils=one, row_index=Index(None, 6), col_index=Index([3, 9, 11, 40, 41]), value_range=(1.0, 5.0))
    return [to_bytes(of), file.to_bytes(one, "packed")]


def test_every_flipped_byte_is_refused() -> None:
    for count in read(small_files(), "damage"):
        assert count["different"] == 0
        assert count["refused"] > 100 * max(count["same"], 1)


def lies(number: int) -> list[bytes]:
    """Files whose checksums are right, and in which one tensor or one number of the header is not."""
    random, made = np.random.default_rng(1), list[bytes]()
    sources = [
        to_bytes(model(kind), interactions=model(kind).interactions is not None)
        for kind in ("accams", "lists", "effects")
    ]
    sources += [to_bytes(labelled(random_sum([(3, 2)]), "integers", spread=random_spread()), coding="packed")]
    for p in range(number):
        header, table, begin = container._read_header(memoryview(sources[p % len(sources)]))
        data = np.frombuffer(sources[p % len(sources)], np.uint8)[begin:]
        tensors = {name: x.copy() for name, x in container._read_tensors(data, table, header["checksums"]).items()}
        name = str(random.choice(sorted(x for x in tensors if tensors[x].size and not x.startswith("history/"))))
        flat = tensors[name].reshape(-1).view(np.uint8)
        if p % 3 == 0 and tensors[name].ndim == 1:
            tensors[name] = tensors[name][: int(random.integers(len(tensors[name])))]
        else:
            flat[int(random.integers(flat.size))] ^= 1 << int(random.integers(8))
        if p % 5 == 0:
            header["shape"][int(random.integers(2))] += int(random.choice([-1, 1, 10**6, 10**12]))
        made.append(container.to_bytes({k: x for k, x in header.items() if k not in ("checksums", "version")}, tensors))
    return made


def test_lies_are_refused_or_read_as_the_library_reads_them(tmp_path: Path, is_quick: bool) -> None:
    contents = lies(150 if is_quick else 3000)
    accepted = 0
    for p, (content, answer) in enumerate(zip(contents, read(contents), strict=True)):
        (tmp_path / "x.accams").write_bytes(content)
        try:
            of = load(tmp_path / "x.accams")
            cells: list[float] | None = cells_of(of.stencils)
            if of.item_map is not None and of.item_map.stencils is not None:
                cells_of(of.item_map.stencils)  # packed labels are read when they are needed
        except AccamsError:
            cells = None
        assert ("refused" in answer) == (cells is None), (p, answer.get("refused"))
        if cells is not None:
            accepted += 1
            assert np.allclose(answer["cells"], cells, atol=1e-9, equal_nan=True)
    assert 0 < accepted < len(contents)
