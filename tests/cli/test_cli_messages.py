"""Messages about parameters become messages about options, and ordinary words stay as they are."""

from __future__ import annotations

import pytest
from command_line import assert_words_are_kept

from accams.cli.messages import translated


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("n_chains must be an integer of at least 1, not 0", "--chains must be an integer of at least 1, not 0"),
        ("engine must be 'auto' or 'cpu', not 'gpu'", "--engine must be 'auto' or 'cpu', not 'gpu'"),
        ("labels='crp' needs sampler='collapsed'", "--prior crp needs --sampler collapsed"),
        ("a fit with schedule__tol=0.5 (not 0.1)", "a fit with --tol 0.5 (not 0.1)"),
        ("a fit with priors__alpha=2.0.", "a fit with --alpha 2.0."),
        ("set early_stopping=False and choose n_stencils yourself",
         "leave out --early-stopping and choose --stencils yourself"),
        ("max_bytes=1,500 is too small", "--max-bytes 1,500 is too small"),
        ("row='item' looks like items and col='user' like users",
         "--row item looks like items and --col user like users"),
        ("u.csv has two columns and no ratings; pass zeros='observed' to Observations.from_file",
         "u.csv has two columns and no ratings; add --zeros observed"),
        ("twice; pass duplicates='mean', 'last' or 'sum' to Observations.from_frame, from_file or from_coo",
         "twice; use --duplicates mean, --duplicates last or --duplicates sum"),
    ],
)  # fmt: skip
def test_parameters_become_options(message: str, wanted: str) -> None:
    assert translated(message) == wanted
    assert translated(wanted) == wanted


@pytest.mark.parametrize(
    "message",
    [
        "the engine has no noise: thin clouds, alpha and beta, labels, the sampler and patience",
        "/data/n_clusters.csv is not an accams model",
        "there is no file runs/n_sweeps/tol=3/m.accams",
        "there is no column 'random_state' in ratings.csv",
        "there is no setting in run.toml called 'n_chain'; did you mean 'n_chains'?",
        "my_n_stencils and n_stencils_ and x.n_init are other names",
        "init must not be translated here, nor what tau must be",
        "pip install 'accams[ray]'",
    ],
)
def test_ordinary_words_stay(message: str) -> None:
    assert translated(message) == message


def test_the_check_of_all_refusals_can_fail() -> None:
    """`refusal` compares every message of these tests with its translation."""
    assert_words_are_kept("the noise must be low", "the noise must be low")
    for shown in ("the --noise --must be low", "the noise be low", "the noise must x--be low"):
        with pytest.raises(AssertionError):
            assert_words_are_kept("the noise must be low", shown)
