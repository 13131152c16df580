"""Certified training is useful on the paper's tables, with nothing tuned."""

import os
from pathlib import Path

import numpy as np
import pytest

from corrdp.datasets._paper import (
    load_adult,
    load_credit_card,
    load_medical_cost,
    load_sepsis,
)
from corrdp.estimators import sweep


@pytest.fixture(scope="module")
def folder():
    root = Path(__file__).parents[2]
    place = Path(os.environ.get("CORRDP_DATA_DIR", root / ".." / "shared" / "data"))
    if not (place / "adult.csv.gz").is_file():
        reason = "the paper's tables are not there; set CORRDP_DATA_DIR to their folder"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return place


def means(data, epsilons, *, seeds, model="logistic", methods=("corr",), delta=1e-5):
    result = sweep(
        data.frame,
        policy=data.policy,
        methods=methods,
        epsilons=epsilons,
        delta=delta,
        seeds=seeds,
        model=model,
        research=True,
    )
    return {(r["method"], r["epsilon"]): r for r in result.summary()}


def test_the_filter_of_the_paper(folder):
    data = load_adult(folder)
    assert len(data.frame) == 45_175
    assert data.policy.insensitive == ("race", "gender", "workclass", "fnlwgt")
    assert [f.leakage for f in data.policy.features if f.leakage is not None] == [
        0.23, 0.90, 1.0, 0.22,
    ]  # fmt: skip


def test_adult(folder):
    wanted = {0.01: 0.800, 0.05: 0.816, 0.1: 0.819, 0.5: 0.822}
    found = means(load_adult(folder), list(wanted), seeds=3)
    for epsilon, accuracy in wanted.items():
        assert found["corr", epsilon]["mean"] >= accuracy


def test_credit_card(folder):
    # Log loss is what the rule minimizes; accuracy fell a little (docs/defaults.md).
    wanted = {0.05: 0.797, 0.1: 0.802, 0.5: 0.808}
    found = means(load_credit_card(folder), list(wanted), seeds=3)
    for epsilon, accuracy in wanted.items():
        assert found["corr", epsilon]["mean"] >= accuracy


@pytest.mark.parametrize("roles", ["appendix", "text"])
def test_medical_cost(folder, roles):
    wanted = {0.5: 0.70, 1.0: 0.73}
    data = load_medical_cost(folder, roles=roles)
    found = means(
        data, list(wanted), seeds=20, model="linear", methods=("corr", "standard")
    )
    for epsilon, r_squared in wanted.items():
        corr, standard = found["corr", epsilon], found["standard", epsilon]
        assert corr["mean"] >= r_squared
        error = np.hypot(corr["deviation"], standard["deviation"]) / np.sqrt(20)
        assert corr["mean"] >= standard["mean"] - 2 * error


def test_sepsis_under_a_block_of_insensitive_features(folder):
    data = load_sepsis(folder)
    methods = ("corr", "standard")
    found = means(data, [0.05], seeds=3, methods=methods, delta=1e-6)
    corr, standard = found["corr", 0.05], found["standard", 0.05]
    assert corr["mean"] >= standard["mean"] - 1e-3
