"""What the map is drawn with, in JavaScript, beside slow versions in Python."""

from __future__ import annotations

from typing import Any

import numpy as np
from pages import HERE, PAGE, needs_node, run_node

WIDE, HIGH = 40, 30
DISCS = [
    {"colour": "#ff0000", "x": 10.2, "y": 9.6, "r": 4.0},
    {"colour": "#0000ff", "x": 12.0, "y": 11.0, "r": 2.5},
    {"colour": "#008000", "x": -1.0, "y": 15.0, "r": 3.0},  # over each edge
    {"colour": "#008000", "x": 40.0, "y": 29.5, "r": 3.0},
    {"colour": "#000000", "x": 25.0, "y": -2.0, "r": 5.0},
    {"colour": "#000000", "x": 90.0, "y": -50.0, "r": 5.0},
    {"colour": "#123456", "x": 30.0, "y": 20.0, "r": 0.01},
]


def drawn() -> np.ndarray:
    """The discs one after the other, each over all pixels."""
    picture = np.full((HIGH, WIDE, 3), 255)
    for disc in DISCS:
        r = max(1, round(disc["r"] * 4)) / 4
        away = np.hypot(
            np.arange(WIDE) - np.floor(disc["x"] + 0.5), (np.arange(HIGH) - np.floor(disc["y"] + 0.5))[:, None]
        )
        reach = np.ceil(r)
        inside = (np.abs(np.arange(WIDE) - np.floor(disc["x"] + 0.5)) <= reach) & (
            np.abs(np.arange(HIGH) - np.floor(disc["y"] + 0.5)) <= reach
        )[:, None]
        share = np.where(inside, np.floor(192 * np.clip(r + 0.5 - away, 0, 1)), 0).astype(int)
        colour = np.array([int(disc["colour"][at : at + 2], 16) for at in (1, 3, 5)])
        picture += ((colour - picture) * share[:, :, None]) >> 8
    return picture


@needs_node
def test_order_thinning_and_discs() -> None:
    random = np.random.default_rng(0)
    scores = np.where(random.random(5000) < 0.5, random.integers(-3, 3, 5000), random.normal(size=5000).round(2))
    among = np.flatnonzero(random.random(5000) < 0.8)
    given: dict[str, Any] = {"scores": scores.tolist(), "among": among.tolist(), "size": [WIDE, HIGH], "discs": DISCS}
    found = run_node(HERE / "draw.mjs", PAGE, given=given)
    assert found["order"] == among[np.argsort(-scores[among], kind="stable")].tolist()
    for most, layers in zip((1, 100, 1000, len(among)), found["thin"], strict=True):
        apart = 1
        while len(found["order"][::apart]) > most:
            apart *= 2
        kept = set(found["order"][::apart])
        assert layers == [[p for p in part.tolist() if p in kept] for part in (among[:700], among[700:])]
    first, second = (np.array(x).reshape(HIGH, WIDE, 4) for x in found["made"])
    assert np.array_equal(first, second)
    assert (first[:, :, 3] == 255).all()
    assert np.array_equal(first[:, :, :3], drawn())
