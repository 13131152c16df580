"""Planted bugs: the library's own releases, each with one mistake that voids its claim.

Every function returns the challenges that an audit must contradict. What is claimed is
what the library would state for the correct mechanism.
"""

from dataclasses import replace
from functools import cache

import numpy as np

from corrdp.accounting import allocate_noise, plan_noise
from corrdp.auditing import (
    Claim,
    SampledSum,
    column_sum_challenges,
    descent_challenges,
)
from corrdp.mechanisms import column_sum_sensitivity, plan_means
from corrdp.policy import (
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    class_epsilon,
    neighbor_classes,
    policy_blocks,
)
from corrdp.training import (
    SQUARED_LOSS,
    Descent,
    LogisticLoss,
    PlanInputs,
    default_plan,
    plan_spending,
)
from corrdp.training._records import record_gradients
from corrdp.training.sensitivity._gradient import GradientSensitivity

DELTA = 1e-5
EPSILON = 2.0


def audited_policy(*, label="category", leakage=0.2, score=0.0):
    """Return two sensitive and two insensitive features, numbers and one-hots."""
    domain = NumberDomain(0, 1) if label == "number" else CategoryDomain(("n", "y"))
    return Policy(
        (
            Feature("age", "sensitive", NumberDomain(0, 1)),
            Feature("job", "sensitive", CategoryDomain(("a", "b", "c"))),
            Feature("hours", "insensitive", NumberDomain(0, 1), leakage=leakage),
            Feature("race", "insensitive", CategoryDomain(("p", "q")), leakage=leakage),
        ),
        label=Label("income", domain, score=score),
    )


def training_plan(policy, *, epsilon=EPSILON, n_rows=500):
    """Return the default plan of a linear model for the policy."""
    logistic = isinstance(policy.label.domain, CategoryDomain)
    spending = plan_spending(
        policy,
        neighbor_classes(policy),
        budget=Budget(epsilon=epsilon, delta=DELTA),
        adapts_residual_bound=not logistic,
    )
    loss = LogisticLoss() if logistic else SQUARED_LOSS
    return default_plan(PlanInputs(policy_blocks(policy), spending, n_rows, loss))


@cache
def logistic_plan():
    return training_plan(audited_policy())


def mean_challenges(policy, *, epsilon=EPSILON, claims=None, noise_scale=None):
    """Challenge the column sums of the library, or the same with other noise."""
    planned = plan_means(
        policy, budget=Budget(epsilon=epsilon, delta=DELTA), n_rows=1000
    ).noise
    classes = neighbor_classes(policy)
    stated = claims or {c.name: Claim((planned.event(c.name),), DELTA) for c in classes}
    if noise_scale is not None:
        planned = replace(planned, noise_scale=noise_scale(planned))
    return column_sum_challenges(planned, policy_blocks(policy), classes, claims=stated)


class HalfTheNoise(Descent):
    """Training whose steps add half the noise that they are priced with."""

    def noisy_gradient(self, gradient):
        noisy, noise_scale = super().noisy_gradient(gradient)
        return gradient + (noisy - gradient) / 2, noise_scale


def noise_halved():
    return descent_challenges(logistic_plan(), delta=DELTA, descent=HalfTheNoise)


def no_noise_on_insensitive_blocks():
    """*Semi* as the paper has it: `U` without noise, although the residual sees `S`."""

    class Semi(Descent):
        def noisy_gradient(self, gradient):
            noisy, noise_scale = super().noisy_gradient(gradient)
            free = _insensitive_groups(self.layout)
            bare = np.isin(self.layout.column_groups, free)
            noise_scale = noise_scale.copy()
            noise_scale[free] = 0.0
            return np.where(bare, gradient, noisy), noise_scale

    challenges = descent_challenges(logistic_plan(), delta=DELTA, descent=Semi)
    return _only(challenges, "sensitive")  # the only class that *Semi* speaks of


def cross_terms_dropped():
    """The floor is missing: `U` gets noise as if a change of `S` never moved it."""

    class NoFloor(Descent):
        def noisy_gradient(self, gradient):
            classes = self._plan.spending.classes
            sensitivity = GradientSensitivity(self._plan.loss, self.layout, classes)
            owners = np.array(sensitivity.row_classes)
            allowed = self._plan.spending.step_mu(self._plan.n_steps)
            budget = np.array([allowed[name] for name in owners])
            sizes = np.array([group.size for group in sensitivity.groups], dtype=float)
            bounds = sensitivity.bounds(self.coef).copy()
            free = _insensitive_groups(self.layout)
            bounds[np.ix_(owners == "sensitive", free)] = 0.0
            kept = owners != "whole_record"
            found = allocate_noise(bounds[kept], budget_mu=budget[kept], sizes=sizes)
            scale = found.noise_scale[self.layout.column_groups]
            noise = self._rng.standard_normal(gradient.shape) * scale
            return gradient + noise, found.noise_scale

    plan = training_plan(audited_policy(leakage=0.01))
    plan = replace(
        plan, layout=_regrouped(plan.layout, influence_bound=np.inf, clip_norm=np.inf)
    )
    challenges = descent_challenges(plan, delta=DELTA, descent=NoFloor)
    return _only(challenges, "sensitive")


def epsilon_times_distance():
    """The certificate states epsilon * d where noise was planned for epsilon / d."""
    policy = audited_policy()
    stated = {
        c.name: Claim.approximate(epsilon=EPSILON * c.distance, delta=DELTA)
        for c in neighbor_classes(policy)
        if c.promised
    }
    return mean_challenges(policy, claims=stated)


def one_hot_sensitivity_of_one():
    policy = audited_policy()
    blocks, classes = policy_blocks(policy), neighbor_classes(policy)
    table = column_sum_sensitivity(blocks, classes)
    wrong = replace(table, bounds=np.minimum(table.bounds, 1.0))
    allowed = {
        c.name: class_epsilon(c.distance, epsilon=EPSILON, epsilon_cap=10.0)
        if c.promised
        else np.inf
        for c in classes
    }
    planned = plan_noise(wrong, allowed_epsilon=allowed, delta=DELTA)
    return column_sum_challenges(planned, blocks, classes)


def groups_clipped_jointly():
    """One norm for groups of different noise: a change of `S` rescales `U`."""
    plan = logistic_plan()
    norm = min(group.clip_norm for group in plan.layout.groups)

    def jointly(codes, y, coef, layout):
        bare = _regrouped(
            layout, clip_norm=np.inf, influence_bound=np.inf, feature_radius=np.inf
        )
        rows = record_gradients(codes, y, coef, plan.loss, bare)
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        return rows * np.minimum(1.0, norm / length)

    return descent_challenges(plan, delta=DELTA, contributions=jointly)


def fixed_batches_priced_as_poisson():
    batches = SampledSum(
        rate=0.25, n_records=4, contribution=1.5, change=1.5, n_steps=8
    )
    return (
        batches.challenge(
            batches.fixed_size, sampling="poisson", delta=DELTA, class_name="sensitive"
        ),
    )


def seed_reused():
    """Every step draws the same noise, so differences of steps have none."""

    class Reusing(Descent):
        n_released = 0

        def noisy_gradient(self, gradient):
            if self.n_released % self._plan.n_steps == 0:
                self.seed = self.n_released
            self._rng = np.random.default_rng(self.seed)
            self.n_released += 1
            return super().noisy_gradient(gradient)

    return descent_challenges(logistic_plan(), delta=DELTA, descent=Reusing)


def residual_not_clipped():
    """Sensitivity rests on the bound of the residual, which nobody applies."""
    plan = training_plan(audited_policy(label="number"))
    plan = replace(
        plan, layout=_regrouped(plan.layout, clip_norm=np.inf, influence_bound=np.inf)
    )
    unclipped = replace(plan.loss, residual_bound=1e6)

    def contributions(codes, y, coef, layout):
        return record_gradients(codes, y, coef, unclipped, layout)

    return descent_challenges(plan, delta=DELTA, contributions=contributions)


def noise_of_the_mean_on_the_sum():
    """Noise divided by the number of rows once too often."""
    return mean_challenges(
        audited_policy(), noise_scale=lambda plan: plan.noise_scale / 1000
    )


MUTANTS = {
    "noise halved": noise_halved,
    "zero noise on insensitive blocks": no_noise_on_insensitive_blocks,
    "dropped cross terms": cross_terms_dropped,
    "epsilon / d confused with epsilon * d": epsilon_times_distance,
    "one-hot sensitivity taken as 1": one_hot_sensitivity_of_one,
    "groups clipped jointly": groups_clipped_jointly,
    "fixed batches priced as Poisson": fixed_batches_priced_as_poisson,
    "seed reused": seed_reused,
    "residual not clipped": residual_not_clipped,
    "noise of the mean on the sum": noise_of_the_mean_on_the_sum,
}


def understated_leakage(n_rows=4000, seed=0):
    """Return codes of `S` and of a column with leakage 0.5 that declares 0.05."""
    rng = np.random.default_rng(seed)
    column = rng.integers(2, size=n_rows)
    copied = rng.random(n_rows) < 0.5
    return np.where(copied, column, rng.integers(2, size=n_rows)), column, 0.05


def _insensitive_groups(layout):
    own = {block.feature for block in layout.blocks if block.role == "insensitive"}
    inside = [own.issuperset(group.features) for group in layout.groups]
    return np.flatnonzero(inside)


def _only(challenges, class_name):
    return tuple(c for c in challenges if c.class_name == class_name)


def _regrouped(layout, **numbers):
    groups = tuple(replace(group, **numbers) for group in layout.groups)
    return replace(layout, groups=groups)
