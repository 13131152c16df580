"""Linear trainings on samples and in epochs, and bugs planted into what they run."""

from dataclasses import replace
from functools import cache

from audit_mutants import DELTA, audited_policy, training_plan
from corrdp.auditing import (
    descent_challenges,
    estimator_challenges,
    sampled_challenges,
)
from corrdp.estimators import LogisticRegression
from corrdp.training import Descent, SampledBudget, SampledSums

EPOCH_STEPS = 3


@cache
def sampled_plan(rate, cost, change):
    """Return a plan and what its two sampled steps may cost."""
    plan = training_plan(audited_policy(), epsilon=8.0, n_rows=100)
    promised = [c.name for c in plan.spending.classes if c.promised]
    return plan, SampledBudget(rate, 2, cost, dict.fromkeys(promised, change))


def sampled_steps(
    sums=SampledSums,
    *,
    rate=0.9,
    cost=1.5,
    change=None,
    class_name="sensitive",
    n_runs=1000,
    seed=0,
):
    """Challenge sampled sums; rare records show the rate, frequent ones the noise."""
    plan, budget = sampled_plan(rate, cost, change or cost)
    return sampled_challenges(
        plan,
        budget,
        delta=DELTA,
        class_names=(class_name,),
        n_runs=n_runs,
        sums=sums,
        random_state=seed,
    )


def epoch_steps(descent=Descent, *, label="category", seed=0):
    plan = training_plan(audited_policy(label=label), epsilon=8.0)
    plan = plan.with_solver(replace(plan.solver, epoch_steps=EPOCH_STEPS))
    return descent_challenges(
        plan, delta=DELTA, n_steps=EPOCH_STEPS, descent=descent, random_state=seed
    )


def group_steps(descent=Descent, *, seed=0):
    """Challenge steps whose groups differ in noise."""
    plan = training_plan(audited_policy())
    return descent_challenges(plan, delta=DELTA, descent=descent, random_state=seed)


def theorem_steps(*, n_steps=400, seed=0):
    """Challenge what is provable of the paper's noise, on many steps."""
    model = LogisticRegression(
        audited_policy(),
        epsilon=2.0,
        delta=DELTA,
        calibration="theorem",
        n_steps=n_steps,
    )
    found = estimator_challenges(model, n_rows=500, random_state=seed)
    return tuple(one for one in found if one.target.endswith("provable"))


class NoiseOfAnotherGroup(Descent):
    """Every group has the noise that was planned for the one before it."""

    def noisy_gradient(self, gradient):
        noisy, noise_scale = super().noisy_gradient(gradient)
        own = noise_scale[self.layout.column_groups]
        rolled = noise_scale[self.layout.column_groups - 1]
        return gradient + (noisy - gradient) * rolled / own, noise_scale


class LessNoiseOnSamples(SampledSums):
    """Four fifths of the noise that is priced."""

    missing = 0.2

    def release(self, coef):
        state = self._rng.bit_generator.state
        noisy, noise_scale = super().release(coef)
        self._rng.bit_generator.state = state  # the same sample and noise again
        self._rng.random(self._plan.n_rows)
        noise = self._rng.standard_normal(coef.shape)
        own = noise_scale[self._plan.layout.column_groups]
        return noisy - self.missing * noise * own, noise_scale


class LittleNoiseOnSamples(LessNoiseOnSamples):
    """Two fifths of it."""

    missing = 0.6


class TwiceTheRate(SampledSums):
    """Records take part twice as often as is priced; noise is as planned."""

    def __init__(self, rows, plan, budget, rng):
        super().__init__(rows, plan, budget, rng)
        self._budget = replace(budget, rate=2 * budget.rate)


class LessNoiseInEpochs(Descent):
    """Four fifths of the noise, on whole gradients and differences alike."""

    def noisy_gradient(self, gradient):
        noisy, noise_scale = super().noisy_gradient(gradient)
        return gradient + 0.8 * (noisy - gradient), noise_scale


class DifferencesWithoutNoise(Descent):
    """Differences are thought to be covered by the noise at the anchor."""

    def noisy_gradient(self, gradient):
        noisy, noise_scale = super().noisy_gradient(gradient)
        return (noisy if self.anchor is None else gradient + 0.0), noise_scale


class DifferencesPricedAsShort(Descent):
    """Noise of differences for half of how far the parameters have moved."""

    def noisy_gradient(self, gradient):
        if self.anchor is None:
            return super().noisy_gradient(gradient)
        there = self.coef
        self.coef = (self.anchor + there) / 2
        noisy = super().noisy_gradient(gradient)
        self.coef = there
        return noisy


# By bug: what makes the challenges that must be contradicted.
LINEAR_BUGS = {
    "samples: noise x 0.8": lambda: sampled_steps(LessNoiseOnSamples, n_runs=6000),
    "samples: twice the rate": lambda: sampled_steps(
        TwiceTheRate, rate=0.2, cost=4.0, n_runs=600
    ),
    "steps: noise of another group": lambda: group_steps(NoiseOfAnotherGroup),
    "epochs: noise x 0.8": lambda: epoch_steps(LessNoiseInEpochs),
    "epochs: differences without noise": lambda: epoch_steps(DifferencesWithoutNoise),
    "epochs: noise for half the way": lambda: epoch_steps(DifferencesPricedAsShort),
}
