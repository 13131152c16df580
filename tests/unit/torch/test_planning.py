"""Plans: which noise is taken, and what the paper's formula proves."""

import math

import numpy as np
import pytest

from corrdp.accounting import WHOLE_RECORD, GaussianEvent, gaussian_mu
from corrdp.certificate import Calibration, Component
from corrdp.exceptions import BudgetError, UnsupportedEventError
from corrdp.torch._layers import trained_layers
from corrdp.torch._layout import flat_layout
from corrdp.torch._planning import plan_network
from unit.torch.networks import facts_of, rows, small_network, small_policy, train

pytestmark = pytest.mark.torch

THEOREM = Calibration.THEOREM


def test_standard_is_the_gaussian_mechanism_on_the_whole_gradient():
    facts = facts_of(small_network(), small_policy(), clip_norm=0.7, n_steps=25)
    plan = plan_network(facts, method="standard")
    expected = 2 * 0.7 * math.sqrt(25) / gaussian_mu(epsilon=1.0, delta=1e-5)
    assert plan.noise.noise_scale == pytest.approx([expected], rel=1e-9)
    assert plan.noise.epsilon(WHOLE_RECORD) <= 1.0


def test_many_insensitive_features_are_worth_groups():
    policy = small_policy(n_sensitive=3, n_insensitive=60)
    facts = facts_of(small_network(n_inputs=63, n_hidden=20), policy)
    plan = plan_network(facts)
    assert plan.method == "corr"
    standard = plan_network(facts, method="standard")
    assert plan.noise.weighted_variance < 0.3 * standard.noise.weighted_variance


def test_little_to_gain_falls_back_to_plain_noise():
    # Many rows: there is no noise to speak of, and bounded influence would be biased.
    facts = facts_of(small_network(), small_policy(), n_rows=10**7)
    plan = plan_network(facts)
    assert plan.method == "layered"
    assert plan_network(facts, fall_back=False).method == "corr"


def test_nothing_insensitive_leaves_plain_noise():
    facts = facts_of(small_network(), small_policy(n_sensitive=5, n_insensitive=0))
    assert plan_network(facts).method == "layered"


@pytest.mark.parametrize("score", [0.3, 1.0])
def test_without_sensitive_features_there_is_no_influence_and_no_reference(score):
    """A sensitive label has no codes of which a mean could be released."""
    policy = small_policy(n_sensitive=0, n_insensitive=5, score=score)
    network, (features, labels) = small_network(), rows()
    changes = {"code_scale": np.ones(5), "reference": np.zeros(5)}
    module, _, loader = train(network, (features, labels), policy=policy, **changes)
    assert module.plan.method == "corr"
    assert not module.plan.layout.clips_influence
    assert module.plan.reference is None
    module.backward(*loader.draw())
    module.certificate().verify(policy)


def test_noise_by_layer_is_ordinary_differential_privacy():
    facts = facts_of(small_network(), small_policy(), clip_norm=0.7, n_steps=25)
    plan = plan_network(facts, method="layered")
    assert [group.name for group in plan.layout.groups] == ["layer:0", "layer:2"]
    norms = [group.clip_norm for group in plan.layout.groups]
    assert np.hypot(*norms) == pytest.approx(0.7)
    # A record may move every layer by twice its norm, all at once.
    mu = math.sqrt(25 * np.sum((2 * np.array(norms) / plan.noise.noise_scale) ** 2))
    assert mu <= gaussian_mu(epsilon=1.0, delta=1e-5) * (1 + 1e-9)
    assert plan.noise.epsilon(WHOLE_RECORD) <= 1.0
    flat = plan_network(facts, method="standard")
    assert plan.noise.weighted_variance < flat.noise.weighted_variance


def test_groups_of_features_keep_every_class():
    facts = facts_of(small_network(), small_policy(), by_feature=True)
    plan = plan_network(facts, fall_back=False)
    assert [group.name for group in plan.layout.groups][:5] == [
        f"input:x{index}" for index in range(5)
    ]
    assert plan.noise.fits
    assert "input:x4" in plan.to_text()


def test_earlier_gaussian_releases_leave_less():
    policy = small_policy()
    half = gaussian_mu(epsilon=1.0, delta=1e-5) / math.sqrt(2)
    spent = Component("leakage", events={WHOLE_RECORD: (GaussianEvent(half),)})
    fresh = plan_network(facts_of(small_network(), policy), method="standard")
    later = plan_network(
        facts_of(small_network(), policy, spent=(spent,)), method="standard"
    )
    ratio = later.noise.noise_scale / fresh.noise.noise_scale
    assert ratio == pytest.approx([math.sqrt(2)], rel=1e-6)
    all_of_it = Component("leakage", events={WHOLE_RECORD: (GaussianEvent(2 * half),)})
    with pytest.raises(BudgetError, match="spent all of epsilon=1"):
        plan_network(facts_of(small_network(), policy, spent=(all_of_it,)))
    with pytest.raises(UnsupportedEventError, match="full-batch"):
        plan_network(facts_of(small_network(), policy, spent=(spent,), rate=0.1))


def test_the_theorem_has_the_noise_of_equation_5():
    policy = small_policy(leakage=0.5)
    facts = facts_of(small_network(), policy, clip_norm=2.0, n_steps=50, n_rows=400)
    plan = plan_network(facts, calibration=THEOREM)
    full = math.sqrt((math.log(1e5) + 1) * 4.0 * 50)  # on the sum over all rows
    by_name = {
        group.name: scale
        for group, scale in zip(
            plan.noise_layout.groups, plan.noise.noise_scale, strict=True
        )
    }
    assert by_name["input:x0"] == pytest.approx(full)
    assert by_name["input:x2"] == pytest.approx(full * math.sqrt(0.5))
    assert by_name["layer:0.bias"] == pytest.approx(full)  # erratum E21
    assert by_name["layer:2"] == pytest.approx(full)
    assert (
        plan.layout.groups
        == flat_layout(trained_layers(small_network())).with_clip_norm(2.0).groups
    )


def test_what_is_proved_for_the_theorem_is_the_worst_group():
    facts = facts_of(small_network(), small_policy(leakage=0.5), n_steps=50)
    plan = plan_network(facts, calibration=THEOREM)
    worst = 2.0 / plan.noise.noise_scale.min() * math.sqrt(50)
    assert plan.noise.event(WHOLE_RECORD).mu * math.sqrt(50) == pytest.approx(worst)


def test_sampling_is_priced_by_the_group_of_least_noise():
    # Flat clipping: all of a record may lie there, and then nothing lies elsewhere.
    facts = facts_of(small_network(), small_policy(leakage=0.5), rate=0.1)
    noise = plan_network(facts, calibration=THEOREM).noise
    assert noise.step_contribution == pytest.approx(1.0 / noise.noise_scale.min())
    assert noise.step_change(WHOLE_RECORD) == pytest.approx(2 * noise.step_contribution)


def test_the_papers_semi_proves_nothing():
    policy = small_policy(n_insensitive=0, n_public=3)
    plan = plan_network(facts_of(small_network(), policy), calibration=THEOREM)
    assert np.count_nonzero(plan.noise.noise_scale == 0.0) == 3
    assert plan.noise.epsilon(WHOLE_RECORD) == math.inf


def test_plans_are_functions_of_public_numbers():
    facts = facts_of(small_network(seed=1), small_policy())
    other = facts_of(small_network(seed=2), small_policy())
    assert plan_network(facts).to_json() == plan_network(other).to_json()
