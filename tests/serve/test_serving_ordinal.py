"""A model of ordinal ratings behind HTTP: numbers are those of the library, and explanations add up."""

from __future__ import annotations

from pathlib import Path

import pytest
from fastapi.testclient import TestClient

import accams
from accams.serve import Settings, Source, create_app

PATH = Path(__file__).parent.parent / "model" / "golden" / "ordinal-2.accams"


def test_predictions_intervals_and_explanations() -> None:
    model = accams.load(PATH)
    user, item = (index.ids[1].item() for index in model.indices)
    app = create_app(Settings(sources=(Source("stars", str(PATH)),), access_log=False))
    with TestClient(app, base_url="http://127.0.0.1") as client:
        for who, expected in (
            ({"user": user}, model.recommend(user, 3, exclude_seen=False)),
            ({"rated": {str(item): 5.0}}, model.fold_in({item: 5.0}).recommend(3)),
        ):
            asked = {**who, "n": 3, "interval": 0.8, "explain": True, "exclude_seen": "rated" in who}
            lines = client.post("/v1/recommend", json=asked).json()["items"]
            assert [line["item"] for line in lines] == expected["item"].tolist()
            for line, prediction in zip(lines, expected["score"], strict=True):
                assert line["prediction"] == pytest.approx(prediction, abs=1e-12)
                assert 0.5 <= line["low"] < line["high"] <= 5.0
                why = line["explanation"]
                rest = [why[part] for part in ("others", "effects", "remainder", "clipping", "rounding")]
                total = why["offset"] + sum(term["value"] for term in why["terms"]) + sum(rest)
                assert total == pytest.approx(prediction, abs=1e-12)
                assert why["clipping"] != 0.0  # what the scale changes
