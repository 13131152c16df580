"""Planted bugs: the library's own releases, each with one mistake that voids its claim.

Every function returns the challenges that an audit must contradict. What is claimed is
what the library would state for the correct mechanism.
"""

from dataclasses import replace
from functools import cache, partial

import numpy as np

from corrdp.accounting import allocate_noise, plan_noise
from corrdp.auditing import (
    Claim,
    GradientPath,
    SampledSum,
    column_sum_challenges,
    gradient_challenges,
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


def noise_halved():
    def release(plan, path, *, delta):
        correct = GradientPath.along(plan, path, delta=delta)
        return replace(correct, noise_scale=correct.noise_scale / 2)

    return gradient_challenges(logistic_plan(), delta=DELTA, release=release)


def no_noise_on_insensitive_blocks():
    """*Semi* as the paper has it: `U` without noise, although the residual sees `S`."""

    def release(plan, path, *, delta):
        correct = GradientPath.along(plan, path, delta=delta)
        free = np.isin(plan.layout.column_groups, _insensitive_groups(plan))
        return replace(correct, noise_scale=np.where(free, 0.0, correct.noise_scale))

    plan = logistic_plan()
    sensitive = plan.spending.classes[:1]  # the only class that *Semi* speaks of
    spending = replace(plan.spending, classes=sensitive, blocks=())
    plan = replace(plan, spending=spending)
    return gradient_challenges(plan, delta=DELTA, release=release)


def cross_terms_dropped():
    """The floor is missing: `U` gets noise as if a change of `S` never moved it."""
    policy = audited_policy(leakage=0.01)
    plan = training_plan(policy)
    plan = replace(
        plan, layout=_regrouped(plan.layout, influence_bound=np.inf, clip_norm=np.inf)
    )

    def release(plan, path, *, delta):
        correct = GradientPath.along(plan, path, delta=delta)
        sensitivity = GradientSensitivity(plan.loss, plan.layout, plan.spending.classes)
        allowed = plan.spending.step_mu(len(path))
        budget = np.array([allowed[name] for name in sensitivity.row_classes])
        is_sensitive = np.array(sensitivity.row_classes) == "sensitive"
        sizes = np.array([group.size for group in sensitivity.groups], dtype=float)
        noise = []
        for coef in path:
            bounds = sensitivity.bounds(coef).copy()
            bounds[np.ix_(is_sensitive, _insensitive_groups(plan))] = 0.0
            kept = np.array(sensitivity.row_classes) != "whole_record"
            found = allocate_noise(bounds[kept], budget_mu=budget[kept], sizes=sizes)
            noise.append(found.noise_scale[plan.layout.column_groups])
        return replace(correct, noise_scale=np.stack(noise))

    return _only(gradient_challenges(plan, delta=DELTA, release=release), "sensitive")


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

    def release(plan, path, *, delta):
        norm = min(group.clip_norm for group in plan.layout.groups)
        bare = _regrouped(
            plan.layout, clip_norm=np.inf, influence_bound=np.inf, feature_radius=np.inf
        )

        def jointly(codes, y, coef):
            rows = record_gradients(codes, y, coef, plan.loss, bare)
            length = np.linalg.norm(rows, axis=1, keepdims=True)
            return rows * np.minimum(1.0, norm / length)

        correct = GradientPath.along(plan, path, delta=delta)
        return replace(correct, contributions=jointly)

    return gradient_challenges(plan, delta=DELTA, release=release)


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

    class Reusing(GradientPath):
        def sample(self, total, n_runs, rng):
            n_steps, n_columns = self.noise_scale.shape
            once = rng.standard_normal((n_runs, 1, n_columns))
            noise = once * self.noise_scale
            return total + noise.reshape(n_runs, n_steps * n_columns)

    return gradient_challenges(logistic_plan(), delta=DELTA, release=Reusing.along)


def residual_not_clipped():
    """Sensitivity rests on the bound of the residual, which nobody applies."""
    plan = training_plan(audited_policy(label="number"))
    plan = replace(
        plan, layout=_regrouped(plan.layout, clip_norm=np.inf, influence_bound=np.inf)
    )

    def release(plan, path, *, delta):
        unclipped = replace(plan.loss, residual_bound=1e6)
        contributions = partial(record_gradients, loss=unclipped, layout=plan.layout)
        correct = GradientPath.along(plan, path, delta=delta)
        return replace(correct, contributions=contributions)

    return gradient_challenges(plan, delta=DELTA, release=release)


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


def _insensitive_groups(plan):
    roles = [role.value for role in plan.layout.roles]
    return np.flatnonzero(np.array(roles) == "insensitive")


def _only(challenges, class_name):
    return tuple(c for c in challenges if c.class_name == class_name)


def _regrouped(layout, **numbers):
    groups = tuple(replace(group, **numbers) for group in layout.groups)
    return replace(layout, groups=groups)
