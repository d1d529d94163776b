"""Parts of model files: what a reader does with those it does not know, and with fields that are missing or wrong."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import changed, little_memory, parts, predictions, put, refused, rewritten

import accams
from accams.fitted.files import HISTORY_FORMAT
from accams.fitted.schema import OPTIONAL, SCHEMAS
from accams.settings.kinds import FLAG, Integer, Words
from accams.settings.schema import SCALE, ListOf, Mapping, Text

GOLDEN = Path(__file__).parent / "golden"
FILES = {
    **dict.fromkeys(["stencils", "values", "ids", "activity", "history", "evaluation", "fit"], "accams-2"),
    **dict.fromkeys(["posterior", "interactions"], "bayesian-2"),
    "spread": "compressed-2",
    "scale": "ordinal-2",
    "linear": "slopes-2",
    **dict.fromkeys(["user_features", "item_features"], "features-2"),
    "item_map": "lists-2",
    "updates": "updated-2",
}
FIELDS = [(part, field) for part, schema in SCHEMAS.items() for field in schema.fields]
ABSENT = {  # attributes of a model without the part
    "spread": "spread", "activity": "activity", "interactions": "interactions", "evaluation": "evaluation",
    "updates": "taken",
}  # fmt: skip


@pytest.fixture
def copied(tmp_path: Path):
    def copy(name: str) -> Path:
        put(tmp_path / "m.accams", (GOLDEN / f"{name}.accams").read_bytes())
        return tmp_path / "m.accams"

    return copy


def without(path: Path, part: str) -> Path:
    """The file without a part: its fields and its tensors."""
    tensors = {name: ... for name in parts(path)[1] if name.startswith(f"{part}/")}
    return rewritten(path, changed(path, part, ...), tensors)


def test_every_part_is_tested():
    assert FILES.keys() == SCHEMAS.keys()
    for part, name in FILES.items():
        fields = parts(GOLDEN / f"{name}.accams")[0]["parts"][part]
        assert (fields.get("optional", False) is True) == (part in OPTIONAL)
        assert fields.keys() <= {*SCHEMAS[part].fields, "optional"}


# -- parts that are not known -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["accams-2", "bayesian-2", "compressed-2"])
def test_an_unknown_part_that_is_optional_is_ignored(copied, name):
    expected = predictions(accams.load(copied(name)))
    path = rewritten(
        copied(name), changed(copied(name), "titles", {"optional": True, "n": 5}), {"titles/x": np.ones(3)}
    )
    with pytest.warns(UserWarning, match="has a part 'titles' that this version of accams does not know: ignored"):
        loaded = accams.load(path)
    np.testing.assert_array_equal(predictions(loaded), expected)


@pytest.mark.parametrize("mark", [{}, {"optional": False}, {"optional": 1}, {"optional": "yes"}, {"optional": None}])
def test_any_other_unknown_part_is_refused(copied, mark):
    path = rewritten(copied("accams-2"), changed(copied("accams-2"), "warp", mark))
    message = refused(path, read=accams.load)
    assert message == f"{path} has a part 'warp' that this version of accams does not know: upgrade accams"


@pytest.mark.parametrize("part", SCHEMAS)
@pytest.mark.parametrize("version", [2, 99, "2", None, [1]])
def test_newer_versions_of_parts(copied, part, version):
    """A reader may do without those that are optional, but for the others it must be upgraded."""
    path = rewritten(copied(FILES[part]), changed(copied(FILES[part]), part, {"version": version}))
    if part not in OPTIONAL:
        refused(path, f"has a part '{part}' that this version of accams does not know: upgrade accams", accams.load)
        return
    with pytest.warns(UserWarning, match=f"has a part '{part}' .*: ignored"):
        loaded = accams.load(path)
    expected = accams.load(copied(FILES[part]))
    np.testing.assert_array_equal(predictions(loaded), predictions(expected))
    if part in ABSENT:
        assert getattr(expected, ABSENT[part]) is not None
        assert getattr(loaded, ABSENT[part]) is None
    elif part.endswith("_features"):
        axis = int(part == "item_features")
        assert expected.knowledge[axis] is not None
        assert loaded.knowledge[axis] is None
    elif part == "history":
        assert len(expected.fit_history) > 0 == len(loaded.fit_history)
    else:
        assert (expected.info.estimator, loaded.info.estimator) == ("ACCAMS", "")


@pytest.mark.parametrize("part", SCHEMAS)
def test_the_present_version_of_parts(copied, part):
    path = rewritten(copied(FILES[part]), changed(copied(FILES[part]), part, {"version": SCHEMAS[part].version}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        accams.load(path)


@pytest.mark.parametrize("part", SCHEMAS)
def test_unknown_fields_and_tensors_of_known_parts_are_ignored(copied, part):
    expected = predictions(accams.load(copied(FILES[part])))
    more = {} if part == "interactions" else {f"{part}/later": np.zeros(3)}  # whose tensors are numbered
    path = rewritten(copied(FILES[part]), changed(copied(FILES[part]), part, {"later": [1, {"a": None}]}), more)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(predictions(accams.load(path)), expected)


@pytest.mark.parametrize("part", sorted(OPTIONAL))
def test_parts_that_may_be_missing(copied, part):
    expected = predictions(accams.load(copied(FILES[part])))
    np.testing.assert_array_equal(predictions(accams.load(without(copied(FILES[part]), part))), expected)


def test_the_part_that_must_be_there(copied):
    refused(without(copied("accams-2"), "stencils"), "stencils", accams.load)


def test_tensors_of_no_part(copied):
    refused(rewritten(copied("accams-2"), tensors={"nowhere/x": np.zeros(3)}), "nowhere", accams.load)


@pytest.mark.parametrize("part", sorted(set(SCHEMAS) - {"values", "scale", "evaluation", "updates", "fit"}))
def test_parts_without_their_tensors(copied, part):
    path = copied(FILES[part])
    tensors = [name for name in parts(path)[1] if name.startswith(f"{part}/")]
    assert tensors
    refused(rewritten(path, tensors=dict.fromkeys(tensors, ...)), "damaged", accams.load)


@pytest.mark.parametrize("wrong", [None, [], 5, "stencils", {}, {"stencils": None}, {"stencils": 5}, {"stencils": []}])
def test_tables_of_parts_of_a_wrong_kind(copied, wrong):
    refused(rewritten(copied("accams-2"), {"parts": wrong}), "is not an accams model, or it is damaged", accams.load)


@pytest.mark.parametrize("part", SCHEMAS)
@pytest.mark.parametrize("wrong", [None, [], 5, "text", True])
def test_parts_of_a_wrong_kind(copied, part, wrong):
    path = copied(FILES[part])
    given = parts(path)[0]["parts"]
    refused(rewritten(path, {"parts": {**given, part: wrong}}), "is not an accams model, or it is damaged", accams.load)


@pytest.mark.parametrize("format", [3, 7])
def test_newer_formats(copied, format):
    refused(rewritten(copied("accams-2"), {"format": format}), "newer than this one .*: upgrade accams", accams.load)


@pytest.mark.parametrize("format", [0, -1, 1, 1.5, "2", None, True, [2]])
def test_formats_that_there_are_not(copied, format):
    refused(rewritten(copied("accams-2"), {"format": format}), "is not an accams model", accams.load)


# -- fields -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("part", "field"), FIELDS)
def test_missing_fields(copied, part, field):
    path = rewritten(copied(FILES[part]), changed(copied(FILES[part]), part, {field: ...}))
    if field == "alike":  # templates of these files are, and without it their sizes are too few
        refused(path, "cut short", accams.load)
    elif field in SCHEMAS[part].optional:
        with np.errstate(all="ignore"):
            assert predictions(accams.load(path)).shape == predictions(accams.load(copied(FILES[part]))).shape
    else:
        refused(path, f"part '{part}' lacks the field '{field}'", accams.load)


WRONG = ["text", -1, -0.5, 1.5, True, None, [], [1], [[1, 2, 3, 4]], ["a", "b"], [None, None], {}, {"a": 1}]
WRONG += [float("nan"), float("inf"), 10**400, [float("nan")] * 2, [10**400] * 2, "x" * 10_001]


def some_of(values: list[Any], field: tuple[str, str]) -> list[Any]:
    """Every third value, from another one on for the next field."""
    return values[FIELDS.index(field) % 3 :: 3] or values


@pytest.mark.parametrize(("part", "field"), FIELDS)
def test_fields_of_a_wrong_kind(copied, is_quick, part, field):
    kind = SCHEMAS[part].fields[field]
    wrong = [value for value in WRONG if not kind.allows(value)]
    assert len(wrong) >= 8
    for value in some_of(wrong, (part, field)) if is_quick else wrong:
        path = rewritten(copied(FILES[part]), changed(copied(FILES[part]), part, {field: value}))
        with little_memory():
            message = refused(path, "is not an accams model, or it is damaged", accams.load)
        assert f"field '{field}' of part '{part}' must be " in message
        assert len(message) < 400


@pytest.mark.parametrize(("part", "field"), FIELDS)
def test_fields_of_the_right_kind_with_any_value(copied, is_quick, part, field):
    """Refused with a ModelFileError, or harmless: never an error from within."""
    kind = SCHEMAS[part].fields[field]
    values = [*WRONG, 0, 1, 3, 10**5 if is_quick else 10**6, 10**15, 0.0, 1e100, 1e300]
    allowed = [value for value in values if kind.allows(value)]
    for value in some_of(allowed, (part, field)) if is_quick else allowed:
        path = rewritten(copied(FILES[part]), changed(copied(FILES[part]), part, {field: value}))
        with little_memory(), np.errstate(all="ignore"):
            try:
                loaded = accams.load(path)
            except accams.ModelFileError:
                refused(path, read=accams.load)
            else:
                assert predictions(loaded).ndim == 1


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        (Text(), ["", "x" * 10_000], [None, 1, b"x", "x" * 10_001]),
        (ListOf(Integer(0), 2), [[0, 1]], [[0], [0, 1, 2], [0, -1], [0.0, 1.0], (0, 1), "01", None]),
        (ListOf(Integer(0), most=3), [[], [1, 2, 3]], [[1] * 4, 3]),
        (Mapping(), [{}, {"a": 1}], [[], None, "a", dict.fromkeys(map(str, range(10_001)))]),
        (Integer(0), [0, 2**70], [True, 1.0, -1, "1"]),
        (SCALE, [0.0, 3, 1e100], [1e101, 1e300, -1e-300, True, float("nan"), float("inf"), "1", None]),
        (FLAG, [True, False], [0, 1, None, "true"]),
        (Words("a", None), ["a", None], ["b", True, 0, ["a"]]),
    ],
    ids=lambda each: type(each).__name__,
)  # fmt: skip
def test_kinds(kind: Any, right: list[Any], wrong: list[Any]):
    assert all(kind.allows(value) for value in right)
    assert not any(kind.allows(value) for value in wrong)


# -- history files ------------------------------------------------------------------------------------------------


def read(path: Path) -> accams.Model:
    return accams.load(GOLDEN / "accams-2.accams", history=path)


@pytest.mark.parametrize(
    "header",
    [
        {"shape": [23]}, {"shape": [23, 17]}, {"shape": [22, 16]}, {"shape": None}, {"shape": [2**40, 16]},
        {"shape": [-23, 16]}, {"sizes": -1}, {"sizes": 207}, {"sizes": "all"}, {"sizes": [[23, 206]] * 2},
        {"sizes": 10**15}, {"row": "tree"}, {"row": None}, {"col": 3}, {"row": "json"}, {"row": ["integers"]},
        {"shape": ...}, {"sizes": ...}, {"row": ...}, {"col": ...}, {"format": "1"},
    ],
    ids=str,
)  # fmt: skip
def test_headers_of_history_files(copied, header):
    path = rewritten(copied("history-2"), header, kind="history")
    with little_memory():
        refused(path, "is not a history file of accams, or it is damaged", read)


@pytest.mark.parametrize("name", ["0", "ids/row", "ids/col"])
def test_tensors_of_history_files(copied, name):
    tensor = parts(copied("history-2"), "history")[1][name]
    for wrong in (..., tensor[:-1], tensor[:0], np.zeros(64, np.int64), np.zeros((8, 8), np.uint8)):
        path = rewritten(copied("history-2"), tensors={name: wrong}, kind="history")
        with little_memory():
            refused(path, "is not a history file of accams, or it is damaged", read)


def test_other_files_are_no_history(copied, tmp_path):
    refused(copied("accams-2"), r"is not a history file of accams, or it is damaged \(it is an accams model\)", read)
    refused(copied("history-2"), r"\(it is a history file of accams\)", accams.load)
    refused(tmp_path / "nothing", "there is no history file", read)
    newer = rewritten(copied("history-2"), {"format": HISTORY_FORMAT + 1}, kind="history")
    refused(newer, "upgrade accams", read)


def test_a_history_of_other_data(tmp_path):
    model = accams.ACCAMS(1, 2).fit([("u", "a"), ("v", "b")], [1.0, 2.0])
    model.save(tmp_path / "m", history=tmp_path / "h")
    with pytest.raises(accams.InputError, match="has no user or no item of this model: is it the history of the same"):
        read(tmp_path / "h")
