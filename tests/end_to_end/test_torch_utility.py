"""Utility of networks: what the saved runs show, and a small run of our own."""

import json
from pathlib import Path

import pytest

from corrdp.datasets._synthetic import paper_synthetic
from corrdp.estimators._mlp_regressor import MLPRegressor

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
    assert compared
    for rows in compared.values():
        assert rows["corr"]["seeds"] == rows["standard"]["seeds"] == 20
        assert rows["corr"]["score"] >= rows["standard"]["score"] - 0.005


def test_the_rule_falls_back_where_there_is_little_to_gain():
    largest = max(by_method("sepsis"))
    assert by_method("sepsis")[largest]["corr"]["noise"] == "standard"


def test_many_insensitive_features_halve_the_excess_risk():
    plain = next(
        row["risk"]
        for row in saved_rows()
        if row["data"] == "synthetic" and row["method"] == "nonprivate"
    )
    rows = by_method("synthetic")[1.0]
    assert rows["corr"]["noise"] == "corr"
    excess = {name: row["risk"] - plain for name, row in rows.items()}
    assert excess["corr"] <= 0.5 * excess["standard"]


def test_a_small_run_agrees():
    # A tenth of the rows and half of the columns; the same order of the two methods.
    table = paper_synthetic(n_rows=2000, n_columns=40, n_sensitive=4)
    risk = {}
    for method in ("corr", "standard"):
        model = MLPRegressor(
            table.policy, epsilon=2.0, delta=1e-5, method=method, random_state=0
        ).fit(table.frame, table.frame["y"])
        risk[method] = 1.0 - model.score(table.frame, table.frame["y"])
    assert model.plan_.method == "standard"
    assert risk["corr"] < 0.7 * risk["standard"]
