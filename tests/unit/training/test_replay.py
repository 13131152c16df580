"""Training replayed from its draws: nothing else joins the data to what is released.

A recording generator writes down every draw. From the draws, the rows and the plan, a
slow implementation in double precision recomputes each released number; the noise that
was really added, divided by its draw, is the scale that is held against the components
of the certificate.
"""

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from corrdp.policy import (
    Budget,
    CategoryDomain,
    ColumnRole,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    neighbor_classes,
)
from corrdp.training import (
    SQUARED_LOSS,
    Descent,
    GradientSensitivity,
    HuberLoss,
    LogisticLoss,
    MultinomialLoss,
    PlanInputs,
    SampledBudget,
    Solver,
    SquaredLoss,
    default_plan,
    descend,
    descend_sampled,
    plan_spending,
    prepare_rows,
    standard_plan,
)
from corrdp.training._records import record_gradients
from linear_model_examples import example_frame, model_of
from recorded_noise import RecordedGenerator

N_ROWS, N_STEPS = 400, 8
STEP_SIZE = 0.05
ROUNDING = 2e-3  # kernels are in single precision; scales are read off sums of them
KINDS = {
    "logistic, compiled": (LogisticLoss(), {}, True),
    "logistic, numpy": (LogisticLoss(), {"ridge": 0.1}, False),
    "squared, compiled": (SQUARED_LOSS, {}, True),
    "squared, numpy": (SQUARED_LOSS, {}, False),
    "huber, compiled": (HuberLoss(0.2), {}, True),
    "multinomial": (MultinomialLoss(3), {}, False),
    "standard": (LogisticLoss(), {"rule": standard_plan}, True),
    "svrg, logistic": (LogisticLoss(), {"epoch_steps": 4}, False),
    "svrg, squared": (SQUARED_LOSS, {"epoch_steps": 4}, False),
    "svrg, multinomial": (MultinomialLoss(3), {"epoch_steps": 3}, False),
}


def example_policy(score=0.3):
    return Policy(
        (
            Feature("a", ColumnRole.SENSITIVE, NumberDomain(0, 1)),
            Feature("b", ColumnRole.INSENSITIVE, CategoryDomain(tuple("pqr")), 0.3),
            Feature("c", ColumnRole.INSENSITIVE, NumberDomain(0, 1), 0.1),
        ),
        Label("y", NumberDomain(0, 1), score=score),
    )


@cache
def example_rows(loss):
    rng = np.random.default_rng(1)
    columns = [
        rng.beta(2, 4, N_ROWS),
        rng.choice(list("pqr"), N_ROWS, p=[0.5, 0.3, 0.2]),
        rng.beta(4, 2, N_ROWS),
    ]
    table = np.array(list(zip(*columns, strict=True)), dtype=object)
    codes = PolicyEncoder(example_policy()).transform(table)
    if isinstance(loss, MultinomialLoss):
        y = rng.integers(3, size=N_ROWS).astype(float)
    elif isinstance(loss, LogisticLoss):
        y = (rng.random(N_ROWS) < columns[0]).astype(float)
    else:
        y = columns[0] - 0.5
    return codes, y


@cache
def plan_of(loss, epoch_steps=1, ridge=0.0, rule=default_plan):
    policy = example_policy()
    spending = plan_spending(
        policy,
        neighbor_classes(policy),
        budget=Budget(epsilon=4.0, delta=1e-5),
        adapts_residual_bound=loss.adapts_residual_bound,
    )
    facts = PlanInputs(PolicyEncoder(policy).blocks_, spending, N_ROWS, loss)
    solver = Solver(step_size=STEP_SIZE, epoch_steps=epoch_steps, ridge=ridge)
    plan = rule(facts).with_steps(N_STEPS).with_solver(solver)
    return replace(plan, bound_growth=8.0)  # counts are read off bounds that move


@dataclass
class Step:
    """What could be seen of one step, and what was drawn during it."""

    coef: np.ndarray
    anchor: np.ndarray | None
    residual_bound: float | None
    moved: np.ndarray
    next_bound: float | None
    draws: list


def followed(kind, seed=0):
    loss, options, compiled = KINDS[kind]
    codes, y = example_rows(loss)
    plan, rng = plan_of(loss, **options), RecordedGenerator(seed)
    rows = prepare_rows(codes, y, plan.layout, compiled=compiled)
    descent = Descent(codes, rows, plan, rng)
    first_draws, steps = rng.taken(), []
    while not descent.finished:
        seen = descent.coef, descent.anchor, descent.residual_bound
        descent.advance(*descent.exact_gradient())
        steps.append(Step(*seen, descent.coef, descent.residual_bound, rng.taken()))
    return plan, descent, first_draws, steps


def component(plan, name):
    """Return what one release of a kind costs each class, by the certificate."""
    parts = {part.name: part for part in plan.components()}
    if name not in parts:
        return None
    return {key: events[0].mu for key, events in parts[name].events.items()}


def scale_of(noise, draw):
    """Return the factor between noise and its draws, which must be one number."""
    scale = float(np.vdot(noise, draw) / np.vdot(draw, draw))
    assert scale > 1e-9
    np.testing.assert_allclose(noise, scale * draw, atol=ROUNDING * scale * 5)
    return scale


@pytest.mark.parametrize("kind", KINDS)
def test_means_are_the_exact_ones_with_the_noise_of_the_certificate(kind):
    plan, descent, draws, _ = followed(kind)
    codes, _ = example_rows(plan.loss)
    ((method, drawn),) = draws
    assert (method, drawn.shape) == ("standard_normal", (codes.shape[1],))
    means = descent.layout.column_offset / plan.layout.column_scale
    noise = N_ROWS * means - codes.sum(axis=0)
    squares = dict.fromkeys((c.name for c in plan.spending.classes), 0.0)
    for block in plan.layout.blocks:
        at = block.columns
        scale = scale_of(noise[at], drawn[at])
        diameter = 1.0 if block.stop - block.start == 1 else math.sqrt(2.0)
        for neighbor in plan.spending.classes:
            if block.feature in neighbor.features:
                squares[neighbor.name] += (diameter / scale) ** 2
    certified = component(plan, "column means")
    for name, square in squares.items():
        assert math.sqrt(square) == pytest.approx(certified[name], rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_the_exact_ones_with_the_noise_of_the_certificate(kind):
    plan, descent, _, steps = followed(kind)
    codes, y = example_rows(plan.loss)
    means = descent.layout.column_offset / plan.layout.column_scale
    sensitivity = GradientSensitivity(
        plan.loss,
        descent.layout,
        plan.spending.classes,
        reference=means,
        compiled=False,
    )
    assert not steps[0].coef.any()  # nothing is known before the first release
    direction, snapshot, costs = np.zeros_like(steps[0].coef), 0.0, []
    for step in steps:
        adapts = plan.loss.adapts_residual_bound
        loss = SquaredLoss(step.residual_bound) if adapts else plan.loss
        exact = record_gradients(
            codes, y, step.coef, loss, descent.layout, means, anchor=step.anchor
        ).sum(axis=0)
        past, direction = direction, (step.coef - step.moved) / STEP_SIZE
        noisy = (direction - plan.momentum * past) / (1.0 - plan.momentum)
        noisy[:-1] -= plan.solver.ridge * step.coef[:-1]
        if step.anchor is None:
            released, snapshot = noisy, noisy
        else:
            released = noisy - snapshot
        counts = adapts and step.next_bound != step.residual_bound
        assert [method for method, _ in step.draws] == ["standard_normal"] * (
            1 + counts
        )
        drawn = step.draws[0][1]
        assert drawn.shape == exact.shape
        noise = released * N_ROWS - centered(exact)
        groups = plan.layout.column_groups
        scales = np.array(
            [
                scale_of(noise[groups == g], centered(drawn)[groups == g])
                for g in range(len(plan.layout.groups))
            ]
        )
        bounds = sensitivity.bounds(
            step.coef,
            anchor=step.anchor,
            residual_bound=step.residual_bound if adapts else None,
        )
        price = np.sqrt(((bounds / scales) ** 2).sum(axis=1))
        kind_of = "gradients" if step.anchor is None else "gradient differences"
        certified = component(plan, kind_of)
        allowed = np.array([certified[name] for name in sensitivity.row_classes])
        assert (price <= allowed * (1.0 + ROUNDING)).all()
        costs.append((price / allowed).max())
    assert min(costs) > 0.9  # and what was paid for is spent


def centered(gradient):
    if gradient.ndim == 1:
        return gradient
    return gradient - gradient.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("kind", ["squared, compiled", "squared, numpy"])
def test_counts_are_the_exact_ones_with_the_noise_of_the_certificate(kind):
    plan, descent, _, steps = followed(kind)
    codes, y = example_rows(plan.loss)
    certified = component(plan, "residual fractions")
    features, checked = descent.layout.features(codes), 0
    for done, step in enumerate(steps):
        ratio = step.next_bound / step.residual_bound
        rate = 0.6 if done < N_STEPS / 4 else 0.3
        cut = math.sqrt(plan.bound_price / (0.45 * step.residual_bound))
        covered = min(max(1 - cut, 0.9), 0.99)
        drawn = float(step.draws[1][1])
        size = np.abs(features @ step.coef - y)
        inside = np.count_nonzero(size < step.residual_bound)
        if abs(size - step.residual_bound).min() < 1e-5 or abs(drawn) < 0.1:
            continue  # within rounding of the bound, or hardly any noise to measure
        noise = N_ROWS * (covered - math.log(ratio) / rate) - inside
        for mu in certified.values():
            assert 1.0 / mu == pytest.approx(noise / drawn, rel=1e-6)
        checked += 1
    assert checked >= N_STEPS // 2


@pytest.mark.parametrize("output", ["average", "last"])
def test_the_model_is_the_planned_function_of_its_iterates(output):
    plan, descent, _, steps = followed("logistic, compiled")
    plan = plan.with_solver(replace(plan.solver, output=output))
    codes, y = example_rows(plan.loss)
    model = descend(codes, y, plan, RecordedGenerator(0))
    first = N_STEPS - round(plan.averaged_part * N_STEPS)
    kept = [step.moved for step in steps][first:]
    coef = np.mean(kept, axis=0) if output == "average" else kept[-1]
    slope = coef[:-1] * plan.layout.column_scale
    means = descent.layout.column_offset / plan.layout.column_scale
    np.testing.assert_allclose(model.coef, slope, rtol=1e-12)
    assert model.intercept == pytest.approx(coef[-1] - means @ slope, rel=1e-12)


RATE = 0.3
SAMPLED = {
    "logistic": LogisticLoss(),
    "huber": HuberLoss(0.2),
    "multinomial": MultinomialLoss(3),
}


def sampled_budget(plan, *, binding):
    """Return a budget in which the contribution binds, or the changes do."""
    promised = [c.name for c in plan.spending.classes if c.promised]
    if binding == "contribution":
        return SampledBudget(RATE, 3, 0.2, dict.fromkeys(promised, 0.4))
    return SampledBudget(RATE, 3, 5.0, dict.fromkeys(promised, 0.3))


@pytest.mark.parametrize("binding", ["contribution", "change"])
@pytest.mark.parametrize("name", SAMPLED)
def test_sampled_gradients_are_those_of_the_drawn_rows(name, binding):
    loss = SAMPLED[name]
    codes, y = example_rows(loss)
    plan = plan_of(loss)
    step_size = 4.0  # far enough that other bounds hold after a step than before it
    plan = plan.with_solver(replace(plan.solver, output="last", step_size=step_size))
    budget = sampled_budget(plan, binding=binding)
    layout = plan.layout
    central = layout.column_offset / layout.column_scale
    sensitivity = GradientSensitivity(
        loss, layout, plan.spending.classes, reference=central, compiled=False
    )
    iterates = [np.zeros_like(np.atleast_1d(initial(plan)))]
    for n_steps in range(1, budget.n_steps + 1):
        rng = RecordedGenerator(7)
        part = replace(budget, n_steps=n_steps)
        slope, intercept = descend_sampled(codes, y, plan, part, rng)
        scale = layout.column_scale if slope.ndim == 1 else layout.column_scale[:, None]
        iterates.append(np.concatenate([slope / scale, [intercept + central @ slope]]))
    log = rng.taken()
    assert [method for method, _ in log] == ["random", "standard_normal"] * 3
    direction, costs, contributions = np.zeros_like(iterates[0]), [], []
    for step, (coef, moved) in enumerate(pairwise(iterates)):
        drawn, normal = log[2 * step][1], log[2 * step + 1][1]
        assert drawn.shape == (N_ROWS,)
        exact = record_gradients(codes, y, coef, loss, layout, central)
        exact = exact[drawn < RATE].sum(axis=0)
        past, direction = direction, (coef - moved) / step_size
        noisy = (direction - plan.momentum * past) / (1.0 - plan.momentum)
        noise = noisy * (RATE * N_ROWS) - centered(exact)
        groups = layout.column_groups
        scales = np.array(
            [
                scale_of(noise[groups == g], centered(normal)[groups == g])
                for g in range(len(layout.groups))
            ]
        )
        price = np.sqrt(((sensitivity.bounds(coef) / scales) ** 2).sum(axis=1))
        for cost, owner in zip(price, sensitivity.row_classes, strict=True):
            allowed = budget.event(owner).change
            assert cost <= allowed * (1.0 + ROUNDING)
            costs.append(cost / allowed)
        largest = np.linalg.norm(sensitivity.contribution() / scales)
        assert largest <= budget.contribution * (1.0 + ROUNDING)
        contributions.append(largest / budget.contribution)
    assert max(contributions if binding == "contribution" else costs) > 0.95


def initial(plan):
    outputs = [plan.loss.n_outputs] if plan.loss.n_outputs > 1 else []
    return np.zeros((plan.layout.n_columns, *outputs))


@pytest.mark.parametrize("options", [{}, {"sampling_rate": 0.05, "n_steps": 5}])
def test_two_fits_without_a_seed_differ(options):
    frame = example_frame(500)
    first, second = (
        model_of(random_state=None, epsilon=2.0, **options).fit(frame) for _ in range(2)
    )
    assert not np.allclose(first.coef_, second.coef_)
    assert np.all(first.coef_ != second.coef_)
