"""Walks that noise made end nearer to the best constant."""

from dataclasses import replace

import numpy as np
import pytest

from corrdp.training import (
    ColumnSteps,
    Solver,
    descend,
    descend_tiled,
    standard_plan,
    tiled_in_memory,
)
from corrdp.training._hindsight import (
    MOST_LEFT_OUT,
    MOST_LEFT_OUT_OF_NUMBERS,
    MUCH_NOISE_ON_NUMBERS,
    beyond_luck,
    shrinkage,
)
from noisy_plans import plan_of, rows_of, started


def walked(plan, codes, labels, seed):
    model = started(plan, codes, labels, np.random.default_rng(seed))
    while not model.finished:
        model.advance(*model.exact_gradient())
    return model


def with_loss(plan, part):
    """Return the plan with a predicted loss, in parts of what there is to gain."""
    prediction = replace(plan.prediction, own_gain=0.0, left=0.0)
    excess = part * prediction.gain
    walking = 1.0 / (1.0 / excess - 1.0 / prediction.gain)
    return replace(plan, prediction=replace(prediction, walking=walking))


def test_of_numbers_more_is_left_out_the_more_loss_is_predicted():
    least, most = MUCH_NOISE_ON_NUMBERS
    parts = (least, (least + most) / 2, most, 0.8)
    found = [shrinkage(with_loss(plan_of("number"), part)) for part in parts]
    all_of_it = MOST_LEFT_OUT_OF_NUMBERS
    assert found == pytest.approx([0.0, all_of_it / 2, all_of_it, all_of_it], abs=1e-9)


@pytest.mark.parametrize("label", ["two", "three"])
@pytest.mark.parametrize("epsilon", [0.1, 20.0])
def test_of_labels_it_is_the_walk_that_says(label, epsilon):
    assert shrinkage(plan_of(label, epsilon=epsilon)) == MOST_LEFT_OUT


@pytest.mark.parametrize("n_weights", [3, 20, 300])
def test_walks_that_luck_does_not_make_are_kept(n_weights):
    """Of walks of noise alone most is left out; of longer ones less, then nothing."""
    noise = np.random.default_rng(0).standard_normal((2000, n_weights))
    squares = (noise**2).mean(axis=1)
    of_noise = np.array([min(beyond_luck(1 / s, n_weights), 1.0) for s in squares])
    assert of_noise.mean() > 0.8
    luck = np.sqrt(2 / n_weights)
    assert beyond_luck(max(1 - 2 * luck, 0.0), n_weights) == 0
    parts = np.linspace(0, 2, 50)
    found = [beyond_luck(part, n_weights) for part in parts]
    assert found == sorted(found)


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(plan_of(score=0.5), id="labels that change"),
        pytest.param(plan_of("number", score=0.5), id="numbers that change"),
        pytest.param(plan_of("number", epsilon=20.0), id="little noise"),
        pytest.param(plan_of().with_solver(Solver(step_size=0.1)), id="other steps"),
        pytest.param(replace(plan_of(), column_steps=ColumnSteps()), id="by column"),
    ],
)
def test_otherwise_the_walk_is_kept(plan):
    assert shrinkage(plan) == 0
    codes, labels = rows_of(plan)
    model = walked(plan.with_steps(8), codes, labels, seed=0)
    average = model._iterates.result()
    assert model._shrinkage.kept(average[:-1]) == 1
    assert np.array_equal(model.result().coef, model._in_codes(average)[0])


@pytest.mark.parametrize("rule", [None, standard_plan])
@pytest.mark.parametrize("label", ["two", "three", "number"])
def test_the_model_lies_between_the_walk_and_the_best_constant(label, rule):
    plan = plan_of(label) if rule is None else plan_of(label, rule=rule)
    codes, labels = rows_of(plan)
    model = walked(plan, codes, labels, seed=1)
    average = model._iterates.result()
    kept = model._shrinkage.kept(average[:-1])
    assert 0 < kept < 1
    rates = np.bincount(labels.astype(int)) / len(labels)
    constant = np.log(rates) - np.log(rates).mean()
    if label != "three":
        constant = constant[1] - constant[0] if label == "two" else labels.mean()
    result = model.result()
    # At the released means of the columns scores are those of the constant alone.
    center = result.intercept + model._means @ result.coef
    np.testing.assert_allclose(center, constant + kept * (average[-1] - constant))
    slope = model._in_codes(average)[0]
    np.testing.assert_allclose(result.coef, kept * slope, rtol=1e-12)
    assert result.hindsight.kept == kept


@pytest.mark.parametrize("label", ["two", "three"])
def test_what_noise_alone_makes_is_known(label):
    """Features that tell nothing: all of the walk is noise, and so is its length."""
    plan = plan_of(label, epsilon=0.3)
    codes, labels = rows_of(plan)
    labels = np.random.default_rng(7).permutation(labels)
    made = []
    for seed in range(12):
        model = walked(plan, codes, labels, seed)
        slope = model._iterates.result()[:-1]
        made.append(model._shrinkage.noise_part(slope))
    # In parts of the walk, on which the twelve seeds and a curved risk have their say.
    assert 0.6 < np.mean(made) < 1.4


def test_less_is_kept_of_a_walk_that_tells_nothing():
    plan = plan_of(epsilon=0.5)
    codes, labels = rows_of(plan)
    told = (codes[:, 1] > 0.5).astype(float)  # the first feature is the label

    def kept(y):
        models = [walked(plan, codes, y, seed) for seed in range(6)]
        return np.mean([m._shrinkage.kept(m._iterates.result()[:-1]) for m in models])

    assert kept(labels) < kept(told) - 0.1


def test_rows_in_memory_and_in_tiles_end_alike():
    plan = plan_of().with_steps(20)
    codes, labels = rows_of(plan)
    tiles = tiled_in_memory([(codes, labels)], plan.layout.blocks, compiled=False)
    rng = np.random.default_rng
    here = descend(codes, labels, plan, rng(0), compiled=False)
    there = descend_tiled(tiles, plan, rng(0))
    np.testing.assert_allclose(here.coef, there.coef, rtol=1e-9)
    np.testing.assert_allclose(here.intercept, there.intercept, rtol=1e-9)
