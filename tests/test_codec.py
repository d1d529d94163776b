"""The codec for numcodecs: chunks within a bound, found by its name."""

from __future__ import annotations

import numpy as np
import pytest

numcodecs = pytest.importorskip("numcodecs")


@pytest.mark.parametrize("shape", [(40, 30), (6, 20, 10), (200,)])
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_chunks_come_back_within_the_bound(shape, dtype):
    from accams.codec import Accams

    chunk = (np.sin(np.arange(np.prod(shape)) / 9.0) * 50).astype(dtype).reshape(shape)
    codec = Accams(max_error=1)
    decoded = np.asarray(codec.decode(codec.encode(chunk)))
    assert np.abs(decoded.reshape(shape).astype(float) - chunk).max() <= 1
    out = np.empty_like(chunk)
    codec.decode(codec.encode(chunk), out=out)
    np.testing.assert_array_equal(out.ravel(), decoded.ravel())


def test_it_is_found_by_its_name():
    from accams.codec import Accams

    found = numcodecs.get_codec({"id": "accams", "max_error": 0.5})
    assert isinstance(found, Accams)
    assert found.get_config() == {"id": "accams", "max_error": 0.5}
