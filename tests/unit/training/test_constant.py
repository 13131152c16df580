"""The noisy constant: its price, its noise, and that nothing else is released."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from corrdp.accounting import GaussianEvent, gaussian_mu
from corrdp.certificate import Component
from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.exceptions import GuaranteeVoidError, UtilityWarning
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    class_columns,
    neighbor_classes,
)
from corrdp.training import (
    CONSTANT,
    SQUARED_LOSS,
    Descent,
    LogisticLoss,
    MultinomialLoss,
    PlanInputs,
    constant_model,
    default_plan,
    or_constant,
    plan_spending,
    prepare_rows,
)
from corrdp.training._totals import constant_noise, release_constant

LABELS = {
    "two": (BooleanDomain(), LogisticLoss(), 1.0),
    "three": (CategoryDomain(tuple("abc")), MultinomialLoss(3), math.sqrt(2.0)),
    "number": (NumberDomain(0, 1), SQUARED_LOSS, 1.0),
}


def policy_of(label, score):
    return Policy(
        (
            Feature("s", "sensitive", NumberDomain(0, 1)),
            Feature("u", "insensitive", CategoryDomain(tuple("xyz")), leakage=0.5),
        ),
        Label("y", LABELS[label][0], score=score),
    )


def plan_of(label="two", *, score=0.0, n_rows=200, epsilon=0.01, spent=()):
    policy, loss = policy_of(label, score), LABELS[label][1]
    spending = plan_spending(
        policy,
        neighbor_classes(policy),
        budget=Budget(epsilon=epsilon, delta=1e-6),
        adapts_residual_bound=loss.adapts_residual_bound,
        spent=spent,
    )
    blocks = PolicyEncoder(policy).blocks_
    return or_constant(default_plan(PlanInputs(blocks, spending, n_rows, loss)))


def summed(labels, loss):
    """Return what the release adds up, without noise, from a definition of its own."""
    if isinstance(loss, MultinomialLoss):
        return np.array([(labels == k).sum() for k in range(loss.n_classes)], float)
    return np.array([labels.sum()])


@pytest.mark.parametrize("label", LABELS)
def test_a_changed_label_moves_the_sum_no_further_than_is_paid_for(label):
    _, loss, reach = LABELS[label]
    plan = plan_of(label, score=1.0)
    noise_scale, cost = plan.constant_noise
    values = {"two": [0, 1], "three": [0, 1, 2], "number": [-0.5, 0.1, 0.5]}[label]
    moves = [
        np.linalg.norm(summed(np.array([a]), loss) - summed(np.array([b]), loss))
        for a in values
        for b in values
    ]
    assert max(moves) == pytest.approx(reach)  # attained
    assert plan.spending.classes[0].label_changes
    for neighbor in plan.spending.classes:
        moved = max(moves) * neighbor.label_changes
        assert moved / noise_scale <= cost[neighbor.name] * (1 + 1e-12)
        assert cost[neighbor.name] <= plan.spending.total_mu[neighbor.name] * (1 + 1e-9)


@pytest.mark.parametrize("label", LABELS)
def test_the_release_adds_the_noise_that_is_priced(label):
    _, loss, _ = LABELS[label]
    plan = plan_of(label, score=1.0)
    noise_scale, _ = plan.constant_noise

    class Draws:
        """Records how much noise is asked for, and gives a number that shows."""

        asked = 0

        def standard_normal(self, size):
            Draws.asked += size
            return 0.25 * np.arange(1, size + 1)

    n_rows = 4000
    labels = np.resize([0.0, 1.0] if label != "number" else [0.0, 0.2], n_rows)
    scale = 0.1 * n_rows / noise_scale  # so that the shift is well inside the domain
    value = release_constant(labels, loss, noise_scale * scale, Draws())
    shift = 0.25 * noise_scale * scale
    total = summed(labels, loss)
    if label == "three":
        expected = np.log((total + shift * np.arange(1, 4)) / n_rows)
        np.testing.assert_allclose(value, expected - expected.mean())
    else:
        mean = (total[0] + shift) / n_rows
        expected = math.log(mean / (1 - mean)) if label == "two" else mean
        assert value == pytest.approx(expected)
    assert Draws.asked == total.size


def test_public_labels_cost_nothing_and_get_no_noise():
    plan = plan_of(score=0.0)
    assert plan.noise == CONSTANT
    noise_scale, cost = plan.constant_noise
    assert noise_scale == 0.0
    assert set(cost.values()) == {0.0}
    labels = np.resize([0.0, 0.0, 0.0, 1.0], 400)
    model = constant_model(labels, plan, np.random.default_rng(0))
    assert model.intercept == pytest.approx(math.log(1 / 3))
    assert not model.coef.any()


def test_the_certificate_is_issued_on_the_label_mean_alone():
    plan = plan_of(score=1.0)
    assert plan.noise == CONSTANT
    (component,) = plan.components()
    assert component.name == "label mean"
    _, cost = plan.constant_noise
    for neighbor in plan.spending.classes:
        (event,) = component.events_of(neighbor.name)
        assert event == GaussianEvent(mu=cost[neighbor.name])


def test_gradients_cannot_be_released_under_a_plan_that_pays_for_labels():
    plan = plan_of()
    codes, labels = np.zeros((4, plan.layout.blocks[-1].stop)), np.zeros(4)
    rows = prepare_rows(codes, labels, plan.layout)
    with pytest.raises(GuaranteeVoidError, match="labels alone"):
        Descent(codes, rows, plan, np.random.default_rng(0), labels)


def test_extreme_rates_stay_finite():
    rng = np.random.default_rng(0)
    for labels in (np.zeros(50), np.ones(50)):
        for loss in (LogisticLoss(), MultinomialLoss(3)):
            assert np.isfinite(release_constant(labels, loss, 0.0, rng)).all()


def test_classes_without_the_label_do_not_pay():
    classes = neighbor_classes(policy_of("two", 0.5))
    some = (replace(classes[0], label_changes=False), *classes[1:])
    total = {c.name: 1.0 + i for i, c in enumerate(some)}
    noise_scale, cost = constant_noise(LogisticLoss(), some, total)
    assert cost[some[0].name] == 0.0
    assert noise_scale == pytest.approx(1.0 / min(list(total.values())[1:]))


def frame_of(n_rows, number):
    rng = np.random.default_rng(3)
    s = rng.random(n_rows)
    y = s if number else rng.random(n_rows) < 0.2
    return pd.DataFrame({"s": s, "u": rng.choice(list("xyz"), n_rows), "y": y})


@pytest.mark.parametrize("label", ["two", "number"])
def test_fit_returns_the_constant_and_says_what_would_do(label):
    kind = LogisticRegression if label == "two" else LinearRegression
    frame = frame_of(100, label == "number")
    model = kind(policy_of(label, 0.0), epsilon=0.01, delta=1e-6, random_state=0)
    with pytest.warns(UtilityWarning, match=r"Labels alone .* rows, or epsilon="):
        model.fit(frame)
    assert model.plan_.noise == CONSTANT
    assert not np.any(model.coef_)
    assert model.certificate_.epsilon == 0.0
    if label == "two":
        rate = model.predict_proba(frame)[:, 1]
        np.testing.assert_allclose(rate, frame["y"].mean())
    else:
        np.testing.assert_allclose(model.predict(frame), frame["y"].mean())


@pytest.mark.parametrize("share", [0.0, 0.9])
def test_what_is_said_to_do_does(share):
    """Also where most of the budget was spent on an earlier release."""
    mu = share * gaussian_mu(epsilon=0.01, delta=1e-6)
    events = (GaussianEvent(mu),)
    policy = policy_of("two", 0.0)
    earlier = Component("leakage", events=dict.fromkeys(class_columns(policy), events))
    spent = (earlier,) if share else ()
    asked = []

    def at_rows(n_rows):
        asked.append(n_rows)
        return plan_of(n_rows=n_rows, spent=spent)

    def at_epsilon(epsilon):
        return plan_of(epsilon=epsilon, spent=spent)

    small = plan_of(spent=spent).advised(at_rows, at_epsilon, epsilon=0.01)
    assert small.noise == CONSTANT
    for plan in (at_rows(small.rows_needed()), at_epsilon(small.needed.epsilon)):
        assert plan.noise != CONSTANT
        assert not plan.prediction.learns_little
    fewer = small.rows_needed() * 9 // 10
    assert plan_of(n_rows=fewer, spent=spent).prediction.learns_little
    assert len(asked) < 12


def test_a_plan_that_learns_is_left_as_it_is():
    plan = plan_of(n_rows=10**5, epsilon=1.0)
    assert plan.advised(None, None, epsilon=1.0) is plan
    assert plan.rows_needed() == 10**5


def test_no_epsilon_is_named_where_none_would_do():
    small = plan_of()
    told = small.advised(
        lambda n_rows: plan_of(n_rows=n_rows), lambda _: small, epsilon=0.01
    )
    assert told.needed.epsilon is None
    assert "epsilon" not in told.needed.text


def test_enough_rows_train_without_a_warning():
    frame = frame_of(3000, number=False)
    model = LogisticRegression(policy_of("two", 0.0), epsilon=3.0, delta=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UtilityWarning)
        model.fit(frame)
    assert model.plan_.noise != CONSTANT
