"""What a report says about noise is what training adds."""

import math

import numpy as np
import pytest

from corrdp.datasets import hospital_policy, hospital_table
from corrdp.estimators import LogisticRegression
from corrdp.policy import policy_blocks
from corrdp.report import coefficient_deviation, gradient_noise
from corrdp.training import GradientSensitivity
from report_fixtures import training_plan


@pytest.mark.parametrize("method", ["corr", "standard"])
def test_noise_by_feature_adds_up_to_that_of_the_plan(method):
    plan = training_plan(method)
    noise = gradient_noise(plan)
    widths = {block.feature: 0 for block in plan.layout.blocks}
    for block in policy_blocks(hospital_policy()):
        widths[block.feature] += block.stop - block.start
    widths["intercept"] = 1
    total = math.sqrt(sum(widths[name] * noise[name] ** 2 for name in noise))
    assert total == pytest.approx(plan.noise_deviation, rel=1e-6)


def test_ordinary_noise_is_the_same_for_every_feature():
    noise = gradient_noise(training_plan("standard"))
    assert len({round(value, 12) for value in noise.values()}) == 1


@pytest.mark.statistical
def test_error_bars_have_the_size_of_the_spread_over_seeds():
    # A nominal model of the curvature: the right size, within a factor of three on the
    # root mean square over 24 columns and 12 seeds (good to 5 % itself).
    table = hospital_table(5_000)
    model = LogisticRegression(
        hospital_policy(), epsilon=0.5, delta=1e-6, research=True
    )
    weights = []
    for seed in range(12):
        model.set_params(random_state=seed).fit(table, table["readmitted"])
        weights.append(model.coef_[0])
    spread = math.sqrt(np.mean(np.var(weights, axis=0, ddof=1)))
    shown = math.sqrt(np.mean(coefficient_deviation(model.plan_) ** 2))
    assert spread / 3 < shown < spread * 3


def test_less_budget_means_wider_error_bars():
    plans = [
        LogisticRegression(hospital_policy(), epsilon=epsilon, delta=1e-6).plan(5_000)
        for epsilon in (0.2, 2.0)
    ]
    wide, narrow = map(coefficient_deviation, plans)
    assert (wide > narrow).all()


def test_the_training_curve_ends_near_the_model():
    table = hospital_table(2_000)
    model = LogisticRegression(
        hospital_policy(), epsilon=2.0, delta=1e-6, random_state=0
    ).fit(table, table["readmitted"])
    path = model.score_path(table, table["readmitted"])
    assert path[-1][0] == model.plan_.n_steps
    assert path[-1][1] == pytest.approx(
        model.score(table, table["readmitted"]), abs=0.05
    )
    assert path[0][1] < path[-1][1]


def test_a_report_allocates_no_noise_again(monkeypatch):
    plan = training_plan("corr")

    def never(*_, **__):
        raise AssertionError("the plan has this")

    monkeypatch.setattr("corrdp.training._candidates.allocate_noise", never)
    monkeypatch.setattr(GradientSensitivity, "__init__", never)
    assert max(gradient_noise(plan).values()) == plan.column_noise.max()
    assert (coefficient_deviation(plan) > 0).all()
