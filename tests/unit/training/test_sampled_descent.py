"""Sampled steps keep the contribution and the changes that were priced."""

import pytest

from corrdp.accounting import SampledGaussianEvent, step_mu
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.training import SampledBudget, _step_sizes
from corrdp.training import _sampled_descent as module
from engine_examples import bits
from linear_model_examples import example_frame, model_of


@pytest.fixture(scope="module")
def priced():
    """Return a budget planned once: planning inverts loss distributions."""
    kept = {}

    def plan(*arguments, **options):
        if "budget" not in kept:
            kept["budget"] = module.plan_sampling(*arguments, **options)
        return kept["budget"]

    return plan


def sampled_model(**options):
    return model_of(sampling_rate=0.05, n_steps=150, epsilon=2.0, **options)


@pytest.fixture
def planned_once(priced, monkeypatch):
    monkeypatch.setattr("corrdp.estimators._promises.plan_sampling", priced)


def test_a_sampled_fit_is_certified_and_useful(planned_once):
    frame = example_frame()
    model = sampled_model().fit(frame)
    assert model.certificate_.epsilon <= 2.0
    assert model.certificate_.epsilon > 1.5  # and spends it
    assert model.certificate_.verify(model.policy_)
    (component,) = model.certificate_.components
    assert isinstance(component.events["sensitive"][0], SampledGaussianEvent)
    assert model.score(frame, frame.rich) > 0.8


def test_files_and_workers_leave_a_sampled_fit_as_it_is(planned_once, tmp_path):
    frame = example_frame()
    frame.to_parquet(tmp_path / "table.parquet")
    expected = bits(sampled_model().fit(frame))
    for n_jobs in (None, 2):
        model = sampled_model(n_jobs=n_jobs).fit(str(tmp_path / "table.parquet"))
        assert bits(model) == expected


def test_noise_that_is_too_small_is_caught(planned_once, monkeypatch):
    class Stingy(_step_sizes.OnlineAllocator):
        def update(self, sensitivity):
            return 0.99 * super().update(sensitivity)

    monkeypatch.setattr(_step_sizes, "OnlineAllocator", Stingy)
    with pytest.raises(GuaranteeVoidError, match="more than its budget"):
        sampled_model().fit(example_frame())


def test_every_step_keeps_contribution_and_changes(planned_once, monkeypatch):
    prices = []

    class Recorded(module.StepNoise):
        def noise(self, bounds):
            noise_scale = super().noise(bounds)
            prices.append(step_mu(bounds, noise_scale))
            return noise_scale

    monkeypatch.setattr(module, "StepNoise", Recorded)
    model = sampled_model().fit(example_frame())
    event = model.certificate_.components[0].events["sensitive"][0]
    assert len(prices) == 150
    assert all(price[-1] <= event.contribution for price in prices)
    assert all(price[0] <= event.change for price in prices)


def test_a_whole_record_moves_by_at_most_twice_its_contribution():
    budget = SampledBudget(0.1, 10, contribution=0.5, change={"sensitive": 0.3})
    assert budget.event("sensitive").change == 0.3
    assert budget.event("whole_record").change == 1.0


def test_a_rate_that_is_no_probability_is_refused():
    with pytest.raises(CorrDPError, match="sampling_rate"):
        model_of(sampling_rate=1.5).fit(example_frame())
    with pytest.raises(CorrDPError, match="under calibration='theorem'"):
        model_of(sampling_rate=0.5, calibration="theorem").fit(example_frame())
