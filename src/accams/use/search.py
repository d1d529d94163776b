"""Search titles, with errors of typing.

`explore/page/search.js` is the twin of this module: both find the same titles in the same order.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

EXACT, PREFIX, WORDS = 1.0, 0.9, 0.8  # scores: of the title itself, of its beginning, of its words without an edit
LONGEST, LONGEST_WORD = 500, 40  # characters of a title and of a word that count
LONGEST_QUERY, MOST_WORDS = 200, 16
ONE_EDIT, TWO_EDITS = 3, 8  # letters from which on a word may have so many
NONE = 255  # edits of a title that does not match
WORD = re.compile(r"[^\W_]+")
APOSTROPHE = re.compile(r"['’](?=(?:s|t|d|m|re|ll|ve)(?![^\W_]))")  # which people leave out: schindlers list
LAST = chr(0x10FFFF)
PLAIN = str.maketrans(
    {"ß": "ss", "ς": "σ", "ø": "o", "đ": "d", "ð": "d", "ł": "l", "æ": "ae", "œ": "oe", "þ": "th", "ı": "i"}
)  # letters that Unicode does not take apart
ONES = np.array([p.bit_count() for p in range(1 << 16)], np.uint8)
Ints = NDArray[np.int64]


class Search:
    """Find titles by a few words.

    Every word of the query has to match a word of the title: as its beginning, or with one edit (two for words of eight
    letters and more; none for words of one or two), where swapping two neighbours counts as one. Case and accents do
    not matter. The order is that of the scores (the whole title, its beginning, all words by the number of edits), then
    of the weights, then of the titles as they are given.

    Parameters
    ----------
    titles : sequence of str
    weights : array-like
        One number for each title: of titles that match alike, the heaviest come first.
    ids : sequence of str, optional
        Other names of the same things, which are found if the query is one of them.

    Examples
    --------
    >>> search = Search(["Star Wars", "Starship Troopers", "Amélie"], [3, 2, 1])
    >>> search.find("star wras")
    [(0, 0.4)]
    >>> search.find("AMELIE")
    [(2, 1.0)]
    """

    def __init__(self, titles: Sequence[str], weights: ArrayLike, ids: Sequence[str] | None = None) -> None:
        self.weights = np.asarray(weights, np.float64)
        texts, of_title, of_word = list[str](), list[int](), list[int]()
        vocabulary = dict[str, int]()
        for p, title in enumerate(titles):
            text, words = words_of(title[:LONGEST])
            texts.append(text)
            for word in set(words):
                of_title.append(p)
                of_word.append(vocabulary.setdefault(word, len(vocabulary)))
        self._index_words(vocabulary, np.array(of_title, np.int64), np.array(of_word, np.int64))
        self._by_text: Ints = np.array(sorted(range(len(texts)), key=texts.__getitem__), np.int64)
        self._texts = [texts[p] for p in self._by_text.tolist()]
        self._ids = {} if ids is None else {fold(x): p for p, x in reversed(list(enumerate(ids)))}

    def _index_words(self, vocabulary: dict[str, int], of_title: Ints, of_word: Ints) -> None:
        """Keep the words in order, the titles of each, its letters as bits of a mask, and its length."""
        self._names = sorted(vocabulary)
        rank = np.zeros(len(vocabulary), np.int64)
        rank[[vocabulary[name] for name in self._names]] = np.arange(len(vocabulary))
        order = np.argsort(rank[of_word], kind="stable")
        self._postings = of_title[order]
        self._starts = np.searchsorted(rank[of_word][order], np.arange(len(vocabulary) + 1))
        self._lengths = np.array([len(name) for name in self._names], np.int64)
        self._masks = np.array([_mask(name) for name in self._names], np.uint32)

    def find(self, query: str, n: int = 10) -> list[tuple[int, float]]:
        """Return the positions of the best `n` titles, with their scores."""
        query = query[:LONGEST_QUERY]
        text, words = words_of(query)
        if not text or n < 1:
            return []
        scores = self._scores(words[:MOST_WORDS]) if words else np.zeros(len(self._texts))
        lo, end = bisect_left(self._texts, text), bisect_left(self._texts, text + LAST)
        exact = bisect_left(self._texts, text + "\0", lo, end)
        scores[self._by_text[lo:exact]] = EXACT
        scores[self._by_text[exact:end]] = PREFIX
        if fold(query) in self._ids:
            scores[self._ids[fold(query)]] = EXACT
        found = np.flatnonzero(scores)
        order = np.lexsort((-self.weights[found], -scores[found]))[:n]
        return [(p, float(scores[p])) for p in found[order].tolist()]

    def _scores(self, words: list[str]) -> NDArray[np.float64]:
        """Return the score of each title by its words, 0 where one of them is missing."""
        total = np.zeros(len(self._texts), np.int64)
        for word in words:
            best = np.full(len(self._texts), NONE, np.int64)
            edits_of = self._edits(word)
            for edits in (2, 1):
                for p in np.flatnonzero(edits_of == edits).tolist():
                    best[self._postings[self._starts[p] : self._starts[p + 1]]] = edits
            lo, end = bisect_left(self._names, word), bisect_left(self._names, word + LAST)
            best[self._postings[self._starts[lo] : self._starts[end]]] = 0
            total += best
        return np.where(total < NONE, WORDS / (1.0 + total), 0.0)

    def _edits(self, word: str) -> Ints:
        """Return the edits from a word to each of the vocabulary, `NONE` where there are too many."""
        allowed = 0 if len(word) < ONE_EDIT else 1 if len(word) < TWO_EDITS else 2
        edits = np.full(len(self._names), NONE, np.int64)
        mask = np.uint32(_mask(word))
        near = (
            (np.abs(self._lengths - len(word)) <= allowed)
            & (_ones(self._masks & ~mask) <= allowed)
            & (_ones(~self._masks & mask) <= allowed)
        )
        some = np.flatnonzero(near) if allowed else np.zeros(0, np.int64)
        if len(some):
            found = distances(word, [self._names[p] for p in some.tolist()])
            edits[some] = np.where(found <= allowed, found, NONE)
        return edits


def fold(text: str) -> str:
    """Return text without case and accents.

    Examples
    --------
    >>> fold("Æon Flux: Édition Spéciale")
    'aeon flux: edition speciale'
    """
    if text.isascii():
        return text.lower()
    lower = unicodedata.normalize("NFKD", text).lower()
    return "".join(x for x in lower if not unicodedata.category(x).startswith("M")).translate(PLAIN)


def words_of(text: str) -> tuple[str, list[str]]:
    """Return the words of a text, and the words side by side; of a text without any, what else there is.

    Examples
    --------
    >>> words_of("Schindler's List (1993)")
    ('schindlers list 1993', ['schindlers', 'list', '1993'])
    """
    folded = fold(text)
    words = [word[:LONGEST_WORD] for word in WORD.findall(APOSTROPHE.sub("", folded))]
    return " ".join(words) if words else folded.strip(), words


def distances(word: str, others: list[str]) -> Ints:
    """Return the edits between a word and each of some others: letters added, lost, changed, or two neighbours swapped.

    Examples
    --------
    >>> distances("wras", ["wars", "was", "grass", "wras"]).tolist()
    [1, 1, 2, 0]
    """
    width = max(map(len, others))
    table = np.array(others, f"U{width}").view(np.uint32).reshape(len(others), width)
    lengths = np.array([len(x) for x in others])
    before, last = np.zeros((width + 1, len(others)), np.int64), np.arange(width + 1)[:, None].repeat(len(others), 1)
    for i, letter in enumerate(word):
        line = np.empty_like(last)
        line[0] = i + 1
        for j in range(width):
            same = table[:, j] == ord(letter)
            line[j + 1] = np.minimum(np.minimum(line[j], last[j + 1]) + 1, last[j] + 1 - same)
            if i and j:
                swapped = (table[:, j] == ord(word[i - 1])) & (table[:, j - 1] == ord(letter))
                line[j + 1] = np.where(swapped, np.minimum(line[j + 1], before[j - 1] + 1), line[j + 1])
        before, last = last, line
    return np.asarray(last[lengths, np.arange(len(others))])


def _mask(word: str) -> int:
    """Return a set of the letters of a word in 32 bits; different ones may share a bit."""
    mask = 0
    for letter in word:
        mask |= 1 << (ord(letter) & 31)
    return mask


def _ones(x: NDArray[np.uint32]) -> NDArray[np.uint8]:
    return np.asarray(ONES[x & np.uint32(0xFFFF)] + ONES[x >> np.uint32(16)])
