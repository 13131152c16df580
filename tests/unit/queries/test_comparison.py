"""The comparison with other libraries: converted relations, and what is claimed."""

import json
import runpy
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from corrdp.mechanisms.noise import discrete_laplace

ROOT = Path(__file__).parents[3]
BENCH = runpy.run_path(str(ROOT / "benchmarks" / "bench_statistics.py"))
SAVED = json.loads((ROOT / "docs" / "results" / "statistics.json").read_text())
ALL, RIVALS = SAVED["corrdp, all sensitive"], (SAVED["OpenDP"], SAVED["diffprivlib"])


def test_the_table_is_made_from_the_saved_run():
    table = (ROOT / "docs" / "results" / "statistics.inc").read_text()
    assert table == BENCH["table_text"](SAVED)


@pytest.mark.parametrize("name", ALL)
def test_errors_are_not_larger_than_the_best_of_the_others(name):
    """Within 1.05; 2,000 draws of Laplace noise leave two percent of chance."""
    assert ALL[name] <= 1.05 * min(rival[name] for rival in RIVALS)


def test_roles_lower_the_error_where_no_sensitive_column_is_read():
    roles = SAVED["corrdp, roles"]
    for name in ("table", "mean_age"):
        assert 0.1 <= roles[name] / ALL[name] <= 0.6
    # Whole ages: a drawn median lies between two of them however small the noise is.
    assert roles["median_age"] / ALL["median_age"] <= 0.75


@pytest.mark.parametrize("name", ["histogram", "table"])
def test_a_replaced_row_is_one_removed_and_one_added(name):
    """The converted rivals draw what the formula of two changes says."""
    scale = Fraction(2 * 10)  # two cells move, at epsilon 0.1
    draws = discrete_laplace(scale, size=100_000, generator=np.random.default_rng(0))
    expected = float(np.sqrt(np.mean(draws.astype(float) ** 2)))
    for rival in RIVALS:
        assert rival[name] == pytest.approx(expected, rel=0.05)
