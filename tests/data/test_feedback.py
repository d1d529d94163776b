"""Values become weights of what was chosen."""

from __future__ import annotations

import numpy as np
import pytest

from accams import InputError
from accams.data.feedback import Feedback, kind_of


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 1, 1], "likes"),
        ([0, 0], "likes"),
        ([-3.5], "likes"),
        ([1, 2, 3, 4, 5, 4, 4], "ratings"),
        ([0.5, 4.5, 5.0], "ratings"),
        ([-9.8, 3.2, 7.1], "ratings"),
        ([0, 1, 1, 0, 1], "ratings"),  # votes
        ([10, 55, 60, 80, 95, 100], "ratings"),  # of a hundred
        ([1, 1, 1, 1, 2, 3], "counts"),
        ([1, 1, 1, 2, 7, 250], "counts"),
        ([3, 5, 9, 20, 600], "counts"),
        ([1, 1, 1, 2, 2], "ratings"),  # two values: no more than thumbs up and down
    ],
)  # fmt: skip
def test_kinds(values, kind):
    assert kind_of(np.array(values, float)) == kind


def test_ratings_from_the_mean_on_are_likes():
    rule = Feedback.of(np.array([1.0, 2, 3, 4, 5]))
    assert rule.weights(np.array([2.9, 3.0, 5.0])).tolist() == [0.3, 1.0, 1.0]
    assert str(rule) == "ratings: 3 and more are likes, others weigh 0.3"


def test_of_mostly_high_ratings_the_upper_quarter_is_liked():
    values = np.repeat([1.0, 4.0, 5.0], [2, 10, 40])
    assert values.mean() > 4.0
    assert Feedback.of(values).weights(np.array([3.0, 4.0])).tolist() == [0.3, 1.0]


def test_rounding_does_not_turn_a_like_into_something_seen():
    values = np.array([0.1, 0.1, 0.1, 0.1 - 1e-12])
    assert Feedback.of(values, "ratings").weights(np.array([0.1]))[0] == 1.0


def test_what_is_said_goes_before_what_is_seen():
    rule = Feedback.of(np.array([1.0, 2, 3]), "ratings", 2.5, 0.0)
    assert rule.weights(np.array([2.0, 3.0])).tolist() == [0.0, 1.0]
    assert Feedback.of(np.array([1.0, 2.0]), "counts").weights(np.array([0.0, 7.0])).tolist() == [0.0, 1.0]
    assert Feedback.of(np.array([2.0, 4.0]), "weights").weights(np.array([1.0, 4.0])).tolist() == [0.25, 1.0]
    assert Feedback.of(np.array([2.0, 4.0]), "likes").weights(np.array([0.0, -4.0])).tolist() == [1.0, 1.0]
    assert str(Feedback.of(np.array([1.0]))) == "likes"


@pytest.mark.parametrize("kind", ["counts", "weights"])
def test_negative_ones(kind):
    with pytest.raises(InputError, match=f"{kind} must not be negative, but one is -1: say feedback='ratings'"):
        Feedback(kind).weights(np.array([1.0, -1.0]))
