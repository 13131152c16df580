"""Sizes follow the deviation of labels that are numbers and that no class changes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from corrdp.estimators import LinearRegression, LogisticRegression, PrivateSearchCV
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.policy import (
    BooleanDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    neighbor_classes,
)
from corrdp.training import (
    LABEL_DEVIATION,
    LEAST_DEVIATION,
    SQUARED_LOSS,
    HuberLoss,
    LabelTotals,
    LogisticLoss,
    PlanInputs,
    default_plan,
    free_deviation,
    labels_are_free,
    standard_plan,
    tiled_in_memory,
)

N_ROWS = 600


def policy_of(score=0.0, upper=1000.0):
    features = (
        Feature("s", "sensitive", NumberDomain(0, 1)),
        *(
            Feature(f"u{i}", "insensitive", NumberDomain(0, 1), leakage=0.2)
            for i in range(4)
        ),
    )
    return Policy(features, Label("y", NumberDomain(0.0, upper), score=score))


def table_of(seed=0, spread=10.0, n_rows=N_ROWS):
    """Return rows whose labels fill a small part of a range up to 1,000."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        rng.uniform(0, 1, (n_rows, 5)), columns=["s", "u0", "u1", "u2", "u3"]
    )
    told = frame["u0"] - frame["u1"] + 0.1 * rng.standard_normal(n_rows)
    return frame.assign(y=200.0 + spread * told)


def fitted(frame, policy=None, **parameters):
    chosen = {"epsilon": 1.0, "delta": 1e-6, "research": True, "random_state": 0}
    model = LinearRegression(policy or policy_of(), **(chosen | parameters))
    return model.fit(frame)


def classes_of(score):
    return neighbor_classes(policy_of(score))


def test_it_is_the_deviation_in_parts_of_the_range_and_at_most_what_is_assumed():
    labels = np.random.default_rng(0).normal(0.1, 0.05, N_ROWS)
    free = classes_of(0.0)
    assert labels_are_free(free)
    assert free_deviation(labels, SQUARED_LOSS, free) == pytest.approx(labels.std())
    assert free_deviation(np.full(9, 0.3), SQUARED_LOSS, free) == LEAST_DEVIATION
    ends = np.tile([-0.5, 0.5], 10)
    assert free_deviation(ends, SQUARED_LOSS, free) == LABEL_DEVIATION


@pytest.mark.parametrize("score", [0.3, 1.0])
def test_labels_that_a_class_changes_are_refused(score):
    assert not labels_are_free(classes_of(score))
    with pytest.raises(GuaranteeVoidError, match="changes labels"):
        free_deviation(np.zeros(4), SQUARED_LOSS, classes_of(score))


@pytest.mark.parametrize("score", [0.3, 1.0])
def test_a_protected_label_tells_no_sizes(score):
    policy = policy_of(score)
    plans = [
        fitted(table_of(spread=spread), policy, epsilon=5.0).plan_
        for spread in (5.0, 50.0)
    ]
    for plan in plans:
        assert plan.label_deviation == LABEL_DEVIATION
        assert not plan.starts_at_constant
        assert plan.to_text() == plans[0].to_text()


def test_features_do_not_change_the_plan():
    frame = table_of()
    other = frame.assign(**dict.fromkeys(("s", "u0", "u1", "u2", "u3"), 0.5))
    plans = [fitted(rows).plan_.to_text() for rows in (frame, other)]
    assert plans[0] == plans[1]


def test_a_fit_follows_its_labels_wherever_its_rows_are():
    frame = table_of()
    model = fitted(frame)
    codes, labels = model.encode(frame)
    assert model.plan_.label_deviation == pytest.approx(frame["y"].std(ddof=0) / 1000)
    assert model.plan_.label_deviation == model.label_deviation(labels)
    batches = zip(np.split(codes, 4), np.split(labels, 4), strict=True)
    tiles = tiled_in_memory(batches, model.plan_.layout.blocks, compiled=False)
    totals = tiles.label_totals(SQUARED_LOSS)
    there = free_deviation(totals, SQUARED_LOSS, classes_of(0.0))
    assert there == model.plan_.label_deviation
    backwards = LabelTotals.of(labels[::-1].copy(), SQUARED_LOSS)
    assert backwards.squares == totals.squares


def test_sizes_are_in_proportion_to_it():
    policy = policy_of()
    model = LinearRegression(policy, epsilon=1.0, delta=1e-6, research=True)
    assumed = model.plan(N_ROWS)
    assert assumed.label_deviation == LABEL_DEVIATION
    wide = model.plan(N_ROWS, label_deviation=0.4)
    assert wide.label_deviation == LABEL_DEVIATION
    narrow = model.plan(N_ROWS, label_deviation=LABEL_DEVIATION / 4)
    for name in ("expected_distance", "noise_deviation"):
        assert getattr(narrow, name) == pytest.approx(getattr(assumed, name) / 4)
    assert narrow.loss.residual_bound == pytest.approx(assumed.loss.residual_bound / 4)
    assert narrow.predicted_error == pytest.approx(assumed.predicted_error / 16)
    assert narrow.noise_to_signal == pytest.approx(assumed.noise_to_signal)
    words = "typical sizes follow the standard deviation of these labels"
    assert words in narrow.to_text()


def test_a_declared_huber_loss_keeps_its_threshold_under_one_norm():
    facts = facts_of(HuberLoss(0.2))
    narrow = replace(facts, label_deviation=0.01)
    assert standard_plan(narrow).loss == HuberLoss(0.2)
    assert default_plan(narrow).loss.threshold < 0.2


def facts_of(loss):
    spending = LinearRegression(policy_of(), epsilon=1.0, delta=1e-6).plan(N_ROWS)
    return PlanInputs(spending.layout.blocks, spending.spending, N_ROWS, loss)


def test_categories_have_none():
    labels = np.array([0.0, 1.0, 1.0])
    assert LabelTotals.of(labels, LogisticLoss()).squares == 0.0
    features = (Feature("s", "sensitive", NumberDomain(0, 1)),)
    policy = Policy(features, Label("y", BooleanDomain(), score=0.0))
    model = LogisticRegression(policy, epsilon=1.0, delta=1e-6, research=True)
    assert model.label_deviation(labels) == LABEL_DEVIATION


def test_a_range_that_is_far_too_wide_costs_little():
    frame = table_of(n_rows=3000)
    errors = {}
    for upper in (300.0, 30_000.0):
        runs = [
            fitted(frame, policy_of(upper=upper), random_state=seed).predict(frame)
            for seed in range(5)
        ]
        errors[upper] = np.mean([np.mean((frame["y"] - run) ** 2) for run in runs])
    assert errors[30_000.0] < 1.5 * errors[300.0]
    assert errors[30_000.0] < 0.6 * frame["y"].var()


def test_a_search_trains_what_it_was_charged_for():
    # A loss with a threshold learns more of narrow labels, or nothing of wide ones:
    # what a fit costs could depend on labels that its price did not know.
    template = LinearRegression(policy_of(), research=True)
    search = PrivateSearchCV(
        template, {"n_steps": [200, 300]}, epsilon=1.0, delta=1e-6, random_state=0
    ).fit(table_of())
    assert search.best_estimator_.plan_.label_deviation == LABEL_DEVIATION


def test_a_deviation_outside_the_range_is_refused():
    model = LinearRegression(policy_of(), epsilon=1.0, delta=1e-6)
    with pytest.raises(CorrDPError, match="label_deviation"):
        model.plan(N_ROWS, label_deviation=0.7)
