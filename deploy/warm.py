"""Compile the kernels that a service uses: fit small models, and answer one request of each kind."""

import tempfile
from pathlib import Path

import numpy as np

from accams import ACCAMS, BayesianACCAMS, ItemACCAMS
from accams.serve.serving import loaded
from accams.serve.settings import Source

random = np.random.default_rng(0)
ratings = random.integers(1, 6, (60, 40)).astype(float)
ratings[random.random(ratings.shape) < 0.5] = np.nan
bayesian = BayesianACCAMS(n_stencils=3, n_clusters=3, n_chains=1, n_sweeps=20, noise=0.7).fit(ratings)
models = {
    "one": ACCAMS(n_stencils=3, n_clusters=3).fit(ratings).model_,
    "many": bayesian.model_,
    "small": bayesian.model_.compress(4000),
    "lists": ItemACCAMS(penalty=10.0, max_bytes=4000).fit(ratings).model_,
}
with tempfile.TemporaryDirectory() as folder:
    for name, model in models.items():
        path = Path(folder, f"{name}.accams")
        model.save(path, history=True)
        loaded(Source(name, str(path)))
