"""CMU faces (640 x 15,360): error against size for ACCAMS and for truncated SVDs of 32, 8, 6 and 4 bits.

Run: python experiments/faces.py          (needs the CMU face images, see docs/data.md)
"""

from __future__ import annotations

from time import perf_counter

import numpy as np
from common import machine, seconds, table, use_local_data

from accams import ACCAMS
from accams.baselines import Factors
from accams.data import datasets


def main() -> None:
    use_local_data()
    observations = datasets.faces().observations
    matrix = observations.values.reshape(observations.shape)
    centred = matrix - matrix.mean()
    u, s, vt = np.linalg.svd(centred, full_matrices=False)
    rows: list[list[object]] = []
    for k, n_stencils in ((16, 16), (32, 32)):
        for n_relearn, refit in ((0, False), (1, False), (1, True)):
            began = perf_counter()
            model = ACCAMS(n_stencils, k, n_relearn=n_relearn, refit=refit, verbose=False).fit(observations)
            took = perf_counter() - began
            error = np.sqrt(np.mean((model.stencils_.dense() - matrix) ** 2))
            name = (
                f"ACCAMS k={k}, s={n_stencils}"
                + (", relearned once" if n_relearn else "")
                + (", refitted" if refit else "")
            )
            rows.append([name, f"{model.stencils_.bits / 8e6:.3f}", f"{error:.2f}", f"{took:.1f}"])
    root = np.sqrt(s)
    svd = Factors(u * root, root[:, None] * vt)
    for bits in (32, 8, 6, 4):
        for rank in (10, 20, 40):
            factors = svd.truncate(rank) if bits == 32 else svd.truncate(rank).quantised(bits)
            error = np.sqrt(np.mean((factors.dense() - centred) ** 2))
            rows.append([f"SVD rank {rank}, {bits} bits", f"{factors.bits / 8e6:.3f}", f"{error:.2f}", ""])
    print(table(["model", "MB", "RMSE", "seconds"], rows))

    full = seconds(lambda: np.linalg.svd(centred, full_matrices=False), 3)
    ours = seconds(lambda: ACCAMS(32, 32, verbose=False).fit(observations), 3)
    print(f"\nfit of k=32, s=32: {ours:.1f} s; numpy.linalg.svd: {full:.1f} s; ratio {ours / full:.2f} (medians of 3)")
    print(machine())


if __name__ == "__main__":
    main()
