"""The paper's noise for networks: where it is lowered, and what it then proves."""

import math

import pytest

from corrdp.accounting import WHOLE_RECORD
from corrdp.certificate import Calibration
from corrdp.torch._planning import plan_network
from corrdp.torch._theorem import experiment_plan
from unit.torch.networks import facts_of, small_network, small_policy

pytestmark = pytest.mark.torch


def test_the_experiments_lower_noise_on_insensitive_columns_and_the_first_bias():
    facts = facts_of(
        small_network(),
        small_policy(leakage=0.36),
        clip_norm=2.0,
        n_steps=50,
        n_rows=400,
    )
    full = math.sqrt((math.log(1e5) + 1) * 4.0 * 50)  # on the sum over all rows
    lowered = {"corr": 0.6, "semi": 0.0, "standard": 1.0}
    for method, factor in lowered.items():
        plan = experiment_plan(facts, method)
        scale = dict(
            zip(
                (group.name for group in plan.noise_layout.groups),
                plan.noise.noise_scale,
                strict=True,
            )
        )
        assert scale["input:x0"] == pytest.approx(full)
        assert scale["input:x2"] == pytest.approx(factor * full)
        assert scale["layer:0.bias"] == pytest.approx(factor * full)
        assert scale["layer:2"] == pytest.approx(full)
        assert plan.calibration is Calibration.THEOREM


def test_less_noise_proves_less():
    facts = facts_of(small_network(), small_policy(leakage=0.36), n_steps=50)
    proved = {
        method: experiment_plan(facts, method).noise.epsilon(WHOLE_RECORD)
        for method in ("standard", "corr", "semi")
    }
    assert proved["standard"] < proved["corr"] < proved["semi"] == math.inf
    certified = plan_network(facts, method="standard").noise
    assert certified.epsilon(WHOLE_RECORD) <= 1.0 < proved["standard"]  # E5
