"""Search with errors of typing: what is found, and that Python and JavaScript find the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pages import HERE, PAGE, needs_node, run_node
from scipy.special import ndtri

from accams.use.search import Search, distances, fold

TITLES = [
    "Star Wars (1977)", "Star Wars: The Empire Strikes Back", "Starship Troopers", "Star Trek", "Wars of the Stars",
    "Amélie", "L'Étoile du Nord", "STRASSE", "Straße", "Schindler's List", "The Good, the Bad and the Ugly", "Ugly",
    "Terminator 2: Judgment Day", "The Terminator", "the terminator", "", "   ", "🎬🍿", "🎬 Action",
    "مرحبا بالعالم", "שלום עולם", "\u202eevil\u202c reversed", "x" * 10_000, "word " * 2000,
    "<script>alert(1)</script>", "a", "I, Robot", "Ⅳ ﬁne", "Æon Flux", "İstanbul", "ΟΔΥΣΣΕΥΣ", "東京物語",
    "Léon: The Professional", "𝔘nicode", "2001: A Space Odyssey", "one_two", "O’Brien-Smith’s", "\0null",
    "e\u0301clair", "éclair",
]  # fmt: skip
WEIGHTS = [float((7 * p) % 13) for p in range(len(TITLES))]
IDS = [str(100 + p) for p in range(len(TITLES))]
QUERIES = [
    "star wars", "star wras", "STAR", "strat wars", "wars star", "amelie", "Amélie", "etoile", "strasse", "straße",
    "shindlers list", "schindler's", "schindlre", "ugly", "the ugly", "teh terminator", "terminatro", "terminaotr",
    "term", "t", "", "   ", "🎬", "🎬🍿", "مرحبا", "שלום", "evil", "x" * 10_000, "x" * 39, "word", "script", "a",
    "robot i", "iv", "fine", "aeon", "istanbul", "οδυσσευς", "東京", "leon professional", "unicode", "2001", "20001",
    "one", "two", "brien", "smiths", "null", "eclair", "107", "1077", "no such film", "<>", "profesional leon",
    "wa st", "str", "sta", "odisey space",
]  # fmt: skip


def titles_of(found: list[tuple[int, float]]) -> list[str]:
    return [TITLES[p] for p, _ in found]


@pytest.fixture(scope="module")
def search() -> Search:
    return Search(TITLES, WEIGHTS, IDS)


def test_what_is_found(search: Search) -> None:
    assert titles_of(search.find("star wras")) == [TITLES[1], TITLES[4], TITLES[0]]
    assert titles_of(search.find("amelie")) == ["Amélie"]
    assert set(titles_of(search.find("straße"))) == {"STRASSE", "Straße"}
    assert titles_of(search.find("shindlers list")) == titles_of(search.find("Schindler’s")) == ["Schindler's List"]
    assert titles_of(search.find("profesional leon")) == ["Léon: The Professional"]
    assert titles_of(search.find("🎬")) == ["🎬🍿"]
    assert titles_of(search.find("no such film")) == titles_of(search.find("")) == []
    assert search.find("107") == [(7, 1.0)]
    assert search.find("ugly") == [(11, 1.0), (10, 0.8)]
    assert search.find("the ter")[0][1] == 0.9


def test_the_order_is_by_score_then_weight_then_position() -> None:
    found = Search(["blue moon", "moon", "moan", "moon river", "new moon"], [1, 0, 9, 0, 1]).find("moon")
    assert found == [(1, 1.0), (3, 0.9), (0, 0.8), (4, 0.8), (2, 0.4)]
    assert Search(["a b", "a c"], [0, 0]).find("a", 1) == [(0, 0.9)]
    assert Search([], []).find("a") == []


@pytest.mark.parametrize(
    ("query", "title", "matches"),
    [("cat", "cut", True), ("ca", "cu", False), ("catalog", "catolag", False), ("catalogs", "catolags", True),
     ("ab", "abc", True), ("abcd", "abdc", True), ("abcd", "badc", False), ("abcdefgh", "badcefgh", True),
     ("abcdefgh", "bcd", False), ("kitten", "sitting", False), ("word", "wo", False)],
)  # fmt: skip
def test_edits(query: str, title: str, matches: bool) -> None:
    assert bool(Search([title], [1]).find(query)) == matches


def plain_distance(a: str, b: str) -> int:
    """Edits by the recursion, without a table."""
    if not a or not b:
        return len(a) + len(b)
    best = min(
        plain_distance(a[1:], b) + 1, plain_distance(a, b[1:]) + 1, plain_distance(a[1:], b[1:]) + (a[0] != b[0])
    )
    if len(a) > 1 and len(b) > 1 and a[0] == b[1] and a[1] == b[0]:
        best = min(best, plain_distance(a[2:], b[2:]) + 1)
    return best


def test_distances() -> None:
    random = np.random.default_rng(0)
    words = ["".join(random.choice(list("abc"), size=random.integers(1, 6))) for _ in range(30)]
    for word in words[:8]:
        assert distances(word, words).tolist() == [plain_distance(word, other) for other in words]


def test_folding() -> None:
    assert fold("Ça Łódź ÆON İ ﬁ Σίσυφος") == "ca lodz aeon i fi σισυφοσ"


@needs_node
def test_javascript_finds_the_same(search: Search, is_quick: bool) -> None:
    random = np.random.default_rng(3)
    words = ["".join(random.choice(list("abcdé "), size=random.integers(1, 12))) for _ in range(400)]
    more = Search(words, np.arange(400) % 7)
    asked: list[tuple[Search, dict[str, Any]]] = [
        (search, {"titles": TITLES, "weights": WEIGHTS, "ids": IDS, "queries": QUERIES}),
        (
            more,
            {
                "titles": words,
                "weights": [p % 7 for p in range(400)],
                "ids": None,
                "queries": words[: 60 if is_quick else 400],
            },
        ),
    ]
    for one, given in asked:
        p = np.concatenate([[1e-300, 1e-20], np.linspace(0.0005, 0.9995, 400), [1 - 1e-12]])
        answer = run_node(HERE / "find.mjs", PAGE, given={**given, "n": 12, "p": p.tolist()})
        for query, found in zip(given["queries"], answer["found"], strict=True):
            assert [tuple(x) for x in found] == one.find(query, 12), query
        assert np.allclose(answer["quantiles"], ndtri(p), rtol=1e-14, atol=1e-14)
