"""
Log a model with MLflow
=======================

Wrap a model file as MLflow's ``python_function``, so that ``mlflow models serve`` and everything else that takes
such models can predict with it. The artifact is the small file that ``save`` writes, and the class below is logged as
code, so nothing is pickled.

Run it with ``pip install mlflow pandas``; it is not run when this page is built.
"""

import tempfile
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd

import accams


class Ratings(mlflow.pyfunc.PythonModel):
    """Predicts a rating and its standard deviation for each line of a table with the columns user and item."""

    def load_context(self, context):
        self.model = accams.load(context.artifacts["model"])

    def predict(self, context, model_input, params=None):
        pairs = model_input[["user", "item"]]
        if not self.model.has_spread:
            return pd.DataFrame({"rating": self.model.predict(pairs)}, index=model_input.index)
        mean, std = self.model.predict(pairs, return_std=True)
        return pd.DataFrame({"rating": mean, "std": std}, index=model_input.index)


mlflow.models.set_model(Ratings())

if __name__ == "__main__":
    random = np.random.default_rng(0)
    table = pd.DataFrame({"user": random.integers(0, 50, 800), "item": random.integers(0, 30, 800)})
    table["rating"] = 3 + (table["user"] % 2 == table["item"] % 2) + random.normal(0, 0.3, 800)
    table = table.drop_duplicates(["user", "item"])
    fitted = accams.BayesianACCAMS(n_stencils=3, n_clusters=3, n_chains=2, n_sweeps=30, random_state=0).fit(table)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ratings.accams"
        fitted.compress(max_bytes=5_000).save(file)
        packaged = Path(folder) / "packaged"
        mlflow.pyfunc.save_model(
            path=packaged,
            python_model=__file__,
            artifacts={"model": str(file)},
            pip_requirements=[f"accams=={accams.__version__}", "pandas"],
            input_example=table[["user", "item"]].head(2),
        )
        print(mlflow.pyfunc.load_model(str(packaged)).predict(table[["user", "item"]].head(3)))
