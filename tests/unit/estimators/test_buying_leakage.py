"""leakage="auto": bought if public numbers say so, paid before a row is counted."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.estimators import _buying as purchase
from corrdp.estimators import _training as training
from corrdp.exceptions import BudgetError, CorrDPError
from corrdp.policy import CategoryDomain, Feature, Label, NumberDomain, Policy

N_ROWS = 10_000
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """Buy for a tenth; the rule asks for more, which only wide tables offer."""
    monkeypatch.setattr(purchase, "WORTH_BUYING", 0.9)


def policy_with(n_insensitive=12):
    return Policy(
        (
            Feature("s", "sensitive", CategoryDomain(("v0", "v1"))),
            *(
                Feature(f"u{i}", "insensitive", NumberDomain(0, 1, bins=4))
                for i in range(n_insensitive)
            ),
        ),
        Label("y", NumberDomain(0, 1), 0.0),
    )


@pytest.fixture(scope="module")
def frame():
    generator = np.random.default_rng(4)
    columns = {f"u{i}": generator.random(N_ROWS) for i in range(12)}
    s = generator.random(N_ROWS) < 0.5
    y = np.clip(0.3 + 0.3 * columns["u0"] - 0.2 * columns["u1"] + 0.1 * s, 0, 1)
    return pd.DataFrame({"s": np.where(s, "v1", "v0"), **columns, "y": y})


def model_of(policy=None, **options):
    return LinearRegression(
        policy or policy_with(), **(BUDGET | {"leakage": "auto"} | options)
    )


def test_the_decision_is_a_function_of_public_numbers():
    many = model_of().plan_leakage(N_ROWS)
    assert many.buys
    assert 0.0 < many.share <= 0.3
    assert many.epsilon == many.share * BUDGET["epsilon"]
    assert many.loss <= 0.9 * many.loss_without
    assert "bought with" in many.reason
    few = model_of().plan_leakage(100)
    assert not few.buys
    assert few.loss == few.loss_without
    assert "not bought" in few.reason
    assert few.to_json()["epsilon"] == 0.0


def test_a_gain_below_the_rule_is_not_bought(monkeypatch):
    ratio = model_of().plan_leakage(N_ROWS)
    monkeypatch.setattr(
        purchase, "WORTH_BUYING", 0.99 * ratio.loss / ratio.loss_without
    )
    found = model_of().plan_leakage(N_ROWS)
    assert not found.buys
    assert "too little to pay for" in found.reason
    assert found.distances == dict.fromkeys(policy_with().insensitive, 1.0)


def test_nothing_is_bought_where_nothing_can_be_had():
    declared = policy_with().with_leakage({f"u{i}": 0.2 for i in range(12)})
    assert "nothing that the policy does not declare" in (
        model_of(declared).plan_leakage(N_ROWS).reason
    )
    defined = dataclasses.replace(policy_with(), conditioning="definition")
    assert not model_of(defined).plan_leakage(N_ROWS).buys
    fine = Policy(
        (
            Feature("s", "sensitive", CategoryDomain(("v0", "v1"))),
            Feature("u", "insensitive", NumberDomain(0, 1)),
        ),
        Label("y", NumberDomain(0, 1), 0.0),
    )
    assert "declared resolution" in model_of(fine).plan_leakage(N_ROWS).reason


def test_a_fit_buys_once_and_its_certificate_says_so(frame):
    model = model_of(random_state=1).fit(frame)
    assert model.leakage_plan_.buys
    assert model.leakage_.source == "private"
    names = [part.name for part in model.certificate_.components]
    assert names.count("leakage") == 1
    assert model.certificate_.epsilon <= 1.0 + 1e-9
    assert model.certificate_.leakage.source == "private"
    assert model.policy_ == model.leakage_.policy_for(policy_with())
    model.certificate_.verify(model.policy_)
    with pytest.raises(BudgetError, match="together"):
        model.fit(frame)


def test_a_fit_that_does_not_buy_trains_with_the_whole_budget(frame):
    few = frame[:300]
    model = model_of(random_state=1).fit(few)
    assert not model.leakage_plan_.buys
    assert set(model.leakage_.values()) == {1.0}
    plain = model_of(random_state=1, leakage=model.leakage_).fit(few)
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    assert [part.name for part in model.certificate_.components] == [
        part.name for part in plain.certificate_.components
    ]


def test_the_purchase_is_recorded_before_a_row_is_counted(frame, monkeypatch):
    """What breaks off after the release has been paid for, and is not free again."""
    model = model_of()
    seen = []

    def failing(*arguments, charge, **options):
        before = model.family.n_fits
        charge(None)
        seen.append((before, model.family.n_fits))
        raise RuntimeError("power cut")

    monkeypatch.setattr(training, "estimate_leakage", failing)
    with pytest.raises(RuntimeError, match="power cut"):
        model.fit(frame)
    assert seen == [(0, 1)]
    assert model.family.n_fits == 1
    with pytest.raises(BudgetError, match="together"):
        model.fit(frame)


def test_payments_of_somebody_else_need_a_table(frame, tmp_path):
    with pytest.raises(BudgetError, match="estimate_leakage"):
        model_of().fit(frame, charge=lambda certificate: None)
    with pytest.raises(BudgetError, match="own budget"):
        model_of(ledger=tmp_path / "rows.ledger").fit(frame)
    with pytest.raises(BudgetError, match="certified calibration"):
        model_of(calibration="theorem").fit(frame)
    with pytest.raises(CorrDPError, match="plan_leakage"):
        model_of().plan(N_ROWS)
    with pytest.raises(CorrDPError, match="leakage must be"):
        LogisticRegression(policy_with(), **BUDGET, leakage="cheap").plan(N_ROWS)
