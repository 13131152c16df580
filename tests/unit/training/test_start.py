"""Where training starts: at zeros, or at the mean of labels that no class changes."""

import math
from dataclasses import replace

import numpy as np
import pytest

from corrdp.auditing import descent_challenges, model_challenges
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.training import (
    CONSTANT,
    Descent,
    LogisticLoss,
    SampledBudget,
    Solver,
    default_plan,
    descend,
    descend_sampled,
    descend_tiled,
    or_constant,
    prepare_rows,
    standard_plan,
    tiled_in_memory,
)
from corrdp.training._gradient_descent import starting_coef
from corrdp.training._totals import free_constant
from noisy_plans import N_ROWS, plan_of, rows_of, started


def test_under_much_noise_it_starts_at_the_mean_of_free_labels():
    plan = plan_of()
    assert plan.prediction.learns_little
    coef = started(plan, *rows_of(plan)).coef
    assert not coef[:-1].any()
    assert coef[-1] == pytest.approx(math.log(1 / 9))
    assert "starts at the mean of the labels" in plan.to_text()


def test_scores_of_several_labels_start_at_their_rates():
    plan = plan_of("three")
    coef = started(plan, *rows_of(plan)).coef
    rates = np.log([0.8, 0.1, 0.1])
    assert not coef[:-1].any()
    np.testing.assert_allclose(coef[-1], rates - rates.mean())


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param({"score": 0.5}, id="labels that change"),
        pytest.param({"epsilon": 20.0}, id="little noise"),
        pytest.param({"rule": standard_plan}, id="one norm cuts gradients"),
        pytest.param({"label": "number", "score": 0.5}, id="numbers that change"),
    ],
)
def test_otherwise_it_starts_at_zeros(plan):
    plan = plan_of(**plan)
    assert not plan.starts_at_constant
    assert not started(plan, *rows_of(plan)).coef.any()
    assert "starts at" not in plan.to_text()


@pytest.mark.parametrize("rule", [default_plan, standard_plan])
@pytest.mark.parametrize("epsilon", [0.2, 20.0])
def test_numbers_that_are_free_start_at_their_mean_whatever_the_noise(rule, epsilon):
    plan = plan_of("number", rule=rule, epsilon=epsilon)
    codes, labels = rows_of(plan)
    coef = started(plan, codes, labels).coef
    assert not coef[:-1].any()
    assert coef[-1] == pytest.approx(labels.mean())


def test_the_limit_is_where_a_fit_warns():
    plan = plan_of()
    for noise, expected in ((0.999, False), (1.001, True)):
        prediction = replace(plan.prediction, own_gain=0.0, left=0.0)
        excess = noise * prediction.gain / 2  # one half of what there is to gain
        walking = 1.0 / (1.0 / excess - 1.0 / prediction.gain)
        other = replace(plan, prediction=replace(prediction, walking=walking))
        assert other.prediction.learns_little is expected
        assert other.starts_at_constant is expected


def test_with_one_norm_the_constant_comes_earlier():
    limits = [
        plan_of(rule=rule).prediction.nothing_beyond
        for rule in (default_plan, standard_plan)
    ]
    assert limits == [0.85, 0.75]
    between = plan_of(rule=standard_plan, epsilon=0.25)
    assert 0.75 < between.prediction.compared_part < 0.85
    assert or_constant(between).noise == CONSTANT


def test_labels_that_a_class_changes_are_not_free():
    labels = np.array([0.0, 1.0, 1.0])
    classes = plan_of(score=0.5).spending.classes
    with pytest.raises(GuaranteeVoidError, match="changes labels"):
        free_constant(labels, LogisticLoss(), classes)
    only = [replace(c, label_changes=i == 1) for i, c in enumerate(classes)]
    with pytest.raises(GuaranteeVoidError, match=repr(only[1].name)):
        free_constant(labels, LogisticLoss(), only)


@pytest.mark.parametrize("label", ["two", "three"])
def test_features_have_no_say_and_no_noise_is_drawn(label):
    plan = plan_of(label)
    codes, labels = rows_of(plan)
    assert plan.starts_at_constant
    starts = [
        starting_coef(plan, rows_of(plan, seed=seed)[1]).tolist() for seed in (0, 1, 2)
    ]
    assert starts[0] == starts[1] == starts[2]
    rngs = [np.random.default_rng(3) for _ in range(2)]
    started(plan, codes, labels, rngs[0])
    zeros = replace(plan, prediction=replace(plan.prediction, nothing_beyond=100.0))
    assert not zeros.starts_at_constant
    started(zeros, codes, labels, rngs[1])
    assert rngs[0].random() == rngs[1].random()


def test_neighbors_of_every_class_start_alike():
    plan = plan_of()
    codes, labels = rows_of(plan)
    first = started(plan, codes, labels).coef
    for block in plan.layout.blocks:
        other = codes.copy()
        other[0, block.columns] = np.roll(other[0, block.columns], 1)
        other[0, block.start] = 0.5 if block.start == 0 else other[0, block.start]
        assert np.array_equal(started(plan, other, labels).coef, first)
    changed = labels.copy()  # a record that no class promises anything about
    changed[0] = 1.0 - changed[0]
    assert not np.array_equal(started(plan, codes, changed).coef, first)


def test_a_plan_that_needs_labels_is_not_started_without_them():
    plan = plan_of()
    codes, labels = rows_of(plan)
    rows = prepare_rows(codes, labels, plan.layout)
    with pytest.raises(CorrDPError, match="labels=None"):
        Descent(codes, rows, plan, np.random.default_rng(0))


def test_rows_in_memory_in_tiles_and_in_samples_start_alike():
    still = Solver(step_size=1e-12)
    plan = plan_of().with_solver(still).with_steps(4)
    codes, labels = rows_of(plan)
    rng = np.random.default_rng
    expected = pytest.approx(math.log(1 / 9), abs=1e-6)
    assert descend(codes, labels, plan, rng(0)).intercept == expected
    tiles = tiled_in_memory([(codes, labels)], plan.layout.blocks, compiled=False)
    assert descend_tiled(tiles, plan, rng(0)).intercept == expected
    change = {c.name: 0.1 for c in plan.spending.classes if c.promised}
    budget = SampledBudget(0.5, 4, 0.1, change)
    _, intercept = descend_sampled(codes, labels, plan, budget, rng(0))
    assert intercept == expected


@pytest.mark.parametrize("label", ["two", "three"])
def test_audits_of_such_a_plan_attack_it(label):
    plan = plan_of(label)
    assert plan.starts_at_constant
    steps = descent_challenges(plan, delta=1e-6, n_steps=2)
    models = model_challenges(plan, delta=1e-6, n_steps=2, n_runs=100)
    for challenge in (*steps, *models):
        seen = challenge.sample(challenge.first, 2, np.random.default_rng(0))
        assert np.isfinite(seen).all()


def test_rare_labels_are_predicted_better_than_from_even_odds(monkeypatch):
    # A walk from zeros ends far from the base rate under as much noise.
    for module in ("_hindsight", "_gradient_descent"):  # whole walks
        monkeypatch.setattr(f"corrdp.training.{module}.shrinkage", lambda plan: 0.0)
    plan = plan_of(epsilon=0.12)
    codes, labels = rows_of(plan)
    zeros = replace(plan, prediction=replace(plan.prediction, nothing_beyond=100.0))

    def risk(each, seed):
        model = descend(codes, labels, each, np.random.default_rng(seed))
        return plan.loss.value(codes @ model.coef + model.intercept, labels).mean()

    risks = np.array([[risk(each, s) for each in (plan, zeros)] for s in range(8)])
    constant = plan.loss.value(np.full(N_ROWS, math.log(1 / 9)), labels).mean()
    excess = risks.mean(axis=0) - constant
    assert excess[0] < 0.5 * excess[1]
