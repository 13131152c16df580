"""Utility of networks: what the saved runs show, and a small run of our own."""

import json
from pathlib import Path

import pytest

from corrdp.datasets import paper_synthetic
from corrdp.estimators import MLPRegressor
from corrdp.torch.mlp import CLIP_NORM

pytestmark = pytest.mark.torch

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def saved_rows():
    return json.loads((RESULTS / "networks_utility.json").read_text())


def by_method(data, calibration="certified"):
    """Rows of every epsilon by method."""
    found = {}
    for row in saved_rows():
        if (row["data"], row["calibration"]) == (data, calibration):
            found.setdefault(row["epsilon"], {})[row["method"]] = row
    return found


@pytest.mark.parametrize("data", ["medical", "sepsis", "synthetic"])
def test_corr_is_never_half_a_point_below_standard(data):
    compared = by_method(data)
    del compared[None]
    assert compared
    for rows in compared.values():
        assert rows["corr"]["seeds"] == rows["standard"]["seeds"] == 20
        assert rows["corr"]["score"] >= rows["standard"]["score"] - 0.005


def test_the_rule_falls_back_where_there_is_little_to_gain():
    compared = by_method("sepsis")
    largest = max(epsilon for epsilon in compared if epsilon is not None)
    assert compared[largest]["corr"]["noise"] == "layered"


def test_many_insensitive_features_pay():
    rows = by_method("synthetic")
    plain = rows[None]["nonprivate"]
    assert plain["seeds"] == 20  # the same rows as the others
    excess = {name: plain["score"] - row["score"] for name, row in rows[1.0].items()}
    assert rows[1.0]["corr"]["noise"] == "corr"
    assert excess["corr"] <= 0.5 * excess["standard"]
    assert excess["corr"] <= 0.5 * excess["flat"]


def test_certified_runs_prove_what_they_were_asked_for():
    for data in ("medical", "sepsis", "synthetic"):
        for epsilon, rows in by_method(data).items():
            if epsilon is not None:
                assert all(row["proved_epsilon"] <= epsilon for row in rows.values())


def test_the_page_says_which_targets_are_met():
    page = (RESULTS / "networks_utility.inc").read_text(encoding="utf-8")
    verdicts = [line for line in page.splitlines() if line.startswith("- ")]
    assert [line.endswith(", met.") for line in verdicts] == [True] * 4


def test_a_small_run_agrees():
    # A tenth of the rows and half of the columns; the same order of the two methods.
    table = paper_synthetic(n_rows=2000, n_columns=40, n_sensitive=4)
    risk = {}
    for method in ("corr", "standard"):
        model = MLPRegressor(
            table.policy,
            epsilon=1.0,
            delta=1e-5,
            method=method,
            clip_norm=CLIP_NORM["regression"],  # said, so that the network stays
            random_state=0,
        ).fit(table.frame, table.frame["y"])
        risk[method] = 1.0 - model.score(table.frame, table.frame["y"])
    assert model.plan_.method == "layered"
    assert risk["corr"] < 0.7 * risk["standard"]
