"""What training says of its own quality: from released numbers alone."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrdp.estimators import LogisticRegression
from corrdp.training import (
    ColumnSteps,
    Descent,
    Hindsight,
    MultinomialLoss,
    Solver,
    descend,
    prepare_rows,
    standard_plan,
)
from corrdp.training._expectations import LABELS_BEND, NUMBERS_BEND, typical_sizes
from corrdp.training._hindsight import NUMBERS_TOLD, LookingBack
from descent_examples import example_frame, example_plan, example_policy, example_rows

SIZES = st.floats(1e-9, 1e9)


def followed(plan, exact, released):
    """Return the hindsight of a run whose releases are given, whatever is exact."""
    codes, y = example_rows(plan.n_rows)
    descent = Descent(
        codes, prepare_rows(codes, y, plan.layout), plan, np.random.default_rng(0), y
    )
    paid = descent.noisy_gradient

    def given(gradient):
        _, noise_scale = paid(gradient)
        return released[descent.n_done], noise_scale

    descent.noisy_gradient = given
    for gradient in exact:
        descent.advance(gradient, 0)
    return descent.result().hindsight


@pytest.mark.parametrize("rule", [None, standard_plan])
def test_nothing_but_releases_is_read(rule):
    options = {} if rule is None else {"rule": rule}
    plan = example_plan(300, **options).with_steps(30)
    rng = np.random.default_rng(1)
    shape = (plan.n_steps, plan.layout.n_columns)
    released, *exact = 30 * rng.standard_normal((4, *shape))
    told = [followed(plan, sums, released) for sums in exact]
    assert told[0] == told[1] == told[2]
    other = followed(plan, exact[0], released[::-1])
    assert other != told[0]  # and releases are read


def test_numbers_are_those_of_the_note():
    plan = replace(example_plan(100), averaged_part=0.5).with_steps(4)
    start, n_columns = np.zeros(plan.layout.n_columns), plan.layout.n_columns
    back = LookingBack(plan, start)
    coef = np.linspace(-1.0, 2.0, n_columns)
    noise = np.linspace(0.1, 0.2, n_columns)
    back.observe(0, np.full(n_columns, 99.0), 99.0 * noise)  # not averaged
    back.observe(1, np.full(n_columns, 99.0), 99.0 * noise)
    back.observe(2, -0.2 * coef, noise)
    back.observe(3, -0.4 * coef, noise)
    found = back.at(coef)
    deviation = math.sqrt(noise @ noise)
    assert found.noise == pytest.approx(deviation)  # half of a distance of 2
    slope, error = 0.3 * coef @ coef, math.sqrt(2 * noise**2 @ coef**2)
    assert found.ahead == pytest.approx(math.hypot(slope, error))
    assert found.gain == found.told == plan.prediction.gain
    climbing = LookingBack(plan, start)
    climbing.observe(3, coef, noise)  # a slope that leads back tells nothing
    error = math.sqrt(4 * noise**2 @ coef**2)
    assert climbing.at(coef).ahead == pytest.approx(error)


def test_noise_along_the_common_mean_of_labels_does_not_count():
    plan = replace(example_plan(100), loss=MultinomialLoss(3)).with_steps(4)
    n_columns = plan.layout.n_columns
    back = LookingBack(plan, np.zeros((n_columns, 3)))
    noise = np.linspace(0.1, 0.2, n_columns)
    back.observe(3, np.zeros((n_columns, 3)), noise)
    found = back.at(np.ones((n_columns, 3)))
    distance = typical_sizes(plan.loss).expected_distance
    assert found.noise == pytest.approx(distance / 2 * math.sqrt(2 * noise @ noise))
    assert found.ahead == pytest.approx(math.sqrt(4 * 3 * noise @ noise))


def test_of_numbers_less_can_be_lost():
    plan = example_plan(2000, logistic=False)
    codes, y = example_rows(2000)
    found = descend(codes, y / 4, plan, np.random.default_rng(0)).hindsight
    assert found.told == NUMBERS_TOLD * plan.prediction.gain
    sizes = typical_sizes(plan.loss, plan.label_deviation)
    assert 0 < found.excess < found.told < sizes.gain


@given(noise=SIZES, ahead=SIZES, gain=SIZES, factor=st.floats(1.0, 100.0))
def test_more_noise_or_more_ahead_never_means_less(noise, ahead, gain, factor):
    found = Hindsight(noise, ahead, gain, gain)
    low, high = found.band
    assert 0 < low < found.excess < high
    assert found.excess <= gain * (1 + 1e-12)
    assert found.noise_to_signal == pytest.approx(found.excess / gain)
    slack = 1 + 1e-12
    assert found.excess <= replace(found, noise=factor * noise).excess * slack
    assert found.excess <= replace(found, ahead=factor * ahead).excess * slack


@given(part=st.floats(0.0, 1.0), other=st.floats(0.0, 1.0))
def test_bends_keep_order_and_range(part, other):
    for bend in (LABELS_BEND, NUMBERS_BEND):
        low, high = sorted((part, other))
        assert 0 <= bend.expected(low) <= bend.expected(high) <= 1


def test_more_noise_is_told():
    codes, y = example_rows(2000)
    told = [
        descend(
            codes, y, example_plan(2000, epsilon=epsilon), np.random.default_rng(0)
        ).hindsight.excess
        for epsilon in (0.1, 1.0, 10.0)
    ]
    assert told[0] > 2 * told[1] > 4 * told[2]


@pytest.mark.parametrize(
    "changed",
    [
        {"solver": Solver(epoch_steps=5)},
        {"solver": Solver(ridge=0.1)},
        {"solver": Solver(step_size=0.1)},
        {"column_steps": ColumnSteps(distance=1.0)},
    ],
)
def test_other_walks_tell_nothing(changed):
    codes, y = example_rows(200)
    plan = replace(example_plan(200).with_steps(20), **changed)
    assert descend(codes, y, plan, np.random.default_rng(0)).hindsight is None


def test_estimators_keep_it(tmp_path):
    frame = example_frame(1500)
    options = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    model = LogisticRegression(example_policy(), **options).fit(frame)
    assert 0 < model.hindsight_.excess < model.plan_.prediction.gain
    model.save(tmp_path / "model")
    assert LogisticRegression.load(tmp_path / "model").hindsight_ is None
    mixed = LogisticRegression(example_policy(), **options)
    mixed.fit(frame[300:], public_rows=frame[:300])
    assert mixed.hindsight_ is None  # an average with another model
