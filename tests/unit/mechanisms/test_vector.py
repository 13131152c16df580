"""Vector releases: variants, bounds per class, grid, refusals."""

import math
from fractions import Fraction

import numpy as np
import pytest

from corrdp.accounting import WHOLE_RECORD, ApproximateEvent, Group
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError
from corrdp.ledger import ConcentratedEvent
from corrdp.mechanisms.noise import (
    Movement,
    NoiseKind,
    Variant,
    VectorPlan,
    correlated_sensitivity,
    plan_vector,
    round_to_grid,
    weighted_variance,
)
from corrdp.policy import Budget, Feature, Label, NumberDomain, Policy

POLICY = Policy(
    (
        Feature("a", "sensitive", NumberDomain(0, 1)),
        Feature("b", "sensitive", NumberDomain(0, 1)),
        Feature("u", "insensitive", NumberDomain(0, 1), leakage=0.5),
        Feature("v", "insensitive", NumberDomain(0, 1), leakage=0.25),
    )
)
SENSITIVITY = {
    "sensitive": [1.0, 2.0, 0.0, 0.0],
    "insensitive:u": [0.0, 0.0, 4.0, 0.0],
    "insensitive:v": [0.0, 0.0, 0.0, 4.0],
    WHOLE_RECORD: [1.0, 2.0, 4.0, 4.0],
}
GRID = 2.0**-20


def plan(variant="optimal", *, epsilon=1.0, delta=0.0, **options):
    return plan_vector(
        Movement.of_coordinates(SENSITIVITY, grid=GRID),
        policy=POLICY,
        budget=Budget(epsilon=epsilon, delta=delta),
        variant=variant,
        **options,
    )


def scales(planned):
    return [float(scale) * GRID for scale in planned.scales]


@pytest.mark.parametrize("relation", ["one_insensitive", "all_insensitive"])
def test_features_move_under_the_classes_that_change_them(relation):
    policy = Policy(
        POLICY.features, Label("y", NumberDomain(0, 1), 0.5), relation=relation
    )
    bounds = {"a": 1.0, "u": 4.0, "y": 2.0}
    movement = Movement.of_features(policy, bounds, grid=1.0)
    steps = {name: movement.absolute[movement.row(name)] for name in movement.classes}
    assert steps["sensitive"].tolist() == [1, 0, 2]
    assert steps["label"].tolist() == [0, 0, 2]
    assert steps[WHOLE_RECORD].tolist() == [1, 4, 2]
    block = "insensitive" if relation == "all_insensitive" else "insensitive:u"
    assert steps[block].tolist() == [0, 4, 2]
    with pytest.raises(CorrDPError, match="no feature 'z'"):
        Movement.of_features(policy, {"z": 1.0}, grid=1.0)


@pytest.mark.parametrize("field", ["absolute", "squared"])
def test_a_movement_beyond_all_integers_is_no_negative_one(field):
    """As an integer 1e20 is below 0, which took noise from the group."""
    rows = {name: np.array([[4, 1.0]] * 2) for name in ("absolute", "squared")}
    rows[field][:, 0] = 1e20
    groups, classes = (Group("a", 1), Group("b", 1)), ("sensitive", WHOLE_RECORD)
    with pytest.raises(CorrDPError, match=f"{field} movements must be at most"):
        Movement(groups, classes, **rows)


def test_paper_variant_is_definition_2_9():
    """The smaller of 3 + 4 / 2 + 4 / 4 and the largest class, which moves by 4."""
    assert scales(plan("paper")) == pytest.approx([4.0] * 4, rel=1e-5)


def test_correlated_sensitivity_takes_the_smaller_side():
    bounds = np.array([[3.0, 0.0], [0.0, 4.0]])
    allowed = np.array([1.0, 10.0])  # distances 1 and 0.1
    assert correlated_sensitivity(bounds, allowed, epsilon=1.0) == pytest.approx(3.4)
    allowed = np.array([1.0, 1.0])
    assert correlated_sensitivity(bounds, allowed, epsilon=1.0) == 4.0


def test_tight_variant_is_the_largest_class():
    """Erratum E13: max(3, 4 / 2, 4 / 4)."""
    assert scales(plan("tight")) == pytest.approx([3.0] * 4, rel=1e-5)


def test_ordinary_variant_is_the_whole_record():
    assert scales(plan("ordinary")) == pytest.approx([11.0] * 4, rel=1e-5)


def test_optimal_variant_solves_each_class_by_itself():
    """Minimize x^2 + y^2 under 1 / x + 2 / y <= 1: x : y = 1 : cbrt(2)."""
    ratio = 2.0 ** (1 / 3)
    first = 1.0 + 2.0 / ratio
    expected = [first, first * ratio, 2.0, 1.0]
    assert scales(plan("optimal")) == pytest.approx(expected, rel=1e-4)


def test_worst_objective_equalizes():
    assert scales(plan(objective="worst")) == pytest.approx([3.0] * 4, rel=1e-5)


def test_cap_binds_where_leakage_is_tiny():
    policy = POLICY.with_leakage({"u": 0.0, "v": 0.0})
    planned = plan_vector(
        Movement.of_coordinates(SENSITIVITY, grid=GRID),
        policy=policy,
        budget=Budget(epsilon=1.0, delta=0.0),
    )
    assert planned.epsilon("insensitive:u") == pytest.approx(10.0, rel=1e-5)
    assert planned.epsilon("insensitive:u") <= 10.0


def test_gaussian_needs_delta_and_has_no_paper_variant():
    with pytest.raises(BudgetError, match="needs delta above 0"):
        plan(kind="gaussian")
    with pytest.raises(BudgetError, match="paper's Laplace mechanism"):
        plan("paper", kind="gaussian", delta=1e-6)


def test_kind_of_smaller_variance_is_chosen():
    chosen = plan(delta=1e-6)
    both = [plan(kind=kind, delta=1e-6) for kind in NoiseKind]
    assert weighted_variance(chosen) == min(map(weighted_variance, both))
    assert plan("paper", delta=1e-6).kind is NoiseKind.LAPLACE


def test_events_price_every_class():
    laplace = plan()
    claimed, charged = laplace.claimed_events(), laplace.charged_events()
    assert set(claimed) == set(charged) == set(SENSITIVITY)
    assert len(charged["sensitive"]) == 2
    total = sum(event.epsilon for event in charged["sensitive"])
    assert total == pytest.approx(claimed["sensitive"][0].epsilon)
    gaussian = plan(kind="gaussian", delta=1e-6).charged_events()
    assert isinstance(gaussian["sensitive"][0], ConcentratedEvent)


def test_a_vector_that_never_moves_is_released_as_it_is():
    still = Movement.of_coordinates(
        {name: [0.0] for name in SENSITIVITY}, grid=1.0, names=["public"]
    )
    planned = plan_vector(still, policy=POLICY, budget=Budget(epsilon=1, delta=0))
    assert planned.scales == (Fraction(0),)
    assert planned.release([5.0], grid=1.0).tolist() == [5.0]
    assert planned.charged_events()["sensitive"] == (ApproximateEvent(0.0, 0.0),)
    assert planned.noise_variance.tolist() == [0.0]


def test_release_rounds_to_the_grid_and_replays_with_a_seed():
    planned = plan()
    first = planned.release([0.1, 0.2, 0.3, 0.4], grid=GRID, random_state=1)
    assert np.array_equal(first / GRID, np.round(first / GRID))
    again = planned.release([0.1, 0.2, 0.3, 0.4], grid=GRID, random_state=1)
    assert np.array_equal(first, again)
    assert np.all(np.abs(first) < 1000)


def test_rounding_is_half_up_so_that_whole_steps_commute():
    """The twin: numpy rounds halves to even, and moves 0.5 to 1.5 by two steps."""
    halves = np.array([0.5, 1.5, -0.5, -1.5])
    assert round_to_grid(halves, grid=1.0).tolist() == [1, 2, 0, -1]
    assert np.round(halves[1]) - np.round(halves[0]) == 2.0
    assert round_to_grid([0.49999999999999994, -1e-20], grid=1.0).tolist() == [0, 0]


def test_noise_variance_of_laplace_is_exact():
    variance = plan().noise_variance
    for scale, value in zip(plan().scales, variance, strict=True):
        decay = math.exp(-1 / float(scale))
        assert value == pytest.approx(2 * decay / (1 - decay) ** 2, rel=1e-4)


@pytest.mark.parametrize(
    ("values", "grid", "message"),
    [
        ([1.0], 0.3, "power of two"),
        ([1.0], -1.0, "power of two"),
        ([1.0], "x", "power of two"),
        ([math.nan] * 4, GRID, "finite numbers"),
        ([math.inf] * 4, GRID, "finite numbers"),
        ([1e300] * 4, GRID, "finite numbers"),
        ([1.0], GRID, "4 coordinates, got 1"),
    ],
)
def test_vectors_that_cannot_be_rounded_are_refused(values, grid, message):
    with pytest.raises(CorrDPError, match=message):
        plan().release(values, grid=grid)


def test_movement_refuses_what_it_cannot_bound():
    group = (Group("x", 1),)
    with pytest.raises(GuaranteeVoidError, match="non-negative"):
        Movement(group, (WHOLE_RECORD,), [[-1]], [[1]])
    with pytest.raises(CorrDPError, match="whole numbers"):
        Movement(group, (WHOLE_RECORD,), [[0.5]], [[1]])
    with pytest.raises(CorrDPError, match="classes must contain"):
        Movement(group, ("sensitive",), [[1]], [[1]])
    with pytest.raises(CorrDPError, match="classes must differ"):
        Movement(group, (WHOLE_RECORD,) * 2, [[1], [1]], [[1], [1]])
    with pytest.raises(CorrDPError, match=r"at most 2\*\*30"):
        Movement(group, (WHOLE_RECORD,), [[2**31]], [[1]])
    with pytest.raises(CorrDPError, match="same length"):
        Movement.of_coordinates({"a": [1.0], WHOLE_RECORD: [1.0, 2.0]}, grid=1.0)
    with pytest.raises(CorrDPError, match="units must be"):
        Movement(group, (WHOLE_RECORD,), [[1]], [[1]], (0,))
    with pytest.raises(CorrDPError, match="no class 'label'"):
        Movement(group, (WHOLE_RECORD,), [[1]], [[1]]).row("label")


def test_squares_of_large_movements_keep_all_their_digits():
    steps = 2**30 - 1
    movement = Movement.of_coordinates({WHOLE_RECORD: [steps]}, grid=1.0)
    assert int(movement.squared[0, 0]) == steps**2
    assert float(steps**2) != steps**2  # a float would have rounded
    with pytest.raises(CorrDPError, match=r"at most 2\*\*30 grid steps"):
        Movement.of_coordinates({WHOLE_RECORD: [2.0**40]}, grid=1.0)


def test_a_group_outside_the_promised_classes_is_refused():
    bounds = {name: [*row, 0.0] for name, row in SENSITIVITY.items()}
    bounds[WHOLE_RECORD][-1] = 1.0
    with pytest.raises(GuaranteeVoidError, match="under no promised class"):
        plan_vector(
            Movement.of_coordinates(bounds, grid=GRID),
            policy=POLICY,
            budget=Budget(epsilon=1.0, delta=0.0),
        )


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1)])
def test_zero_or_negative_noise_on_a_moving_group_is_refused(scale):
    movement = Movement(
        (Group("x", 1),), ("sensitive", WHOLE_RECORD), [[1], [1]], [[1], [1]]
    )
    with pytest.raises(GuaranteeVoidError, match="Give it a positive scale"):
        VectorPlan(
            movement,
            NoiseKind.LAPLACE,
            Variant.TIGHT,
            (scale,),
            {"sensitive": 1.0, WHOLE_RECORD: math.inf},
            0.0,
        )
    with pytest.raises(GuaranteeVoidError, match=r"allows 1\.0"):
        VectorPlan(
            movement,
            NoiseKind.LAPLACE,
            Variant.TIGHT,
            (Fraction(1, 2),),
            {"sensitive": 1.0, WHOLE_RECORD: math.inf},
            0.0,
        )


def test_an_impossible_budget_is_refused():
    with pytest.raises(GuaranteeVoidError, match=r"2\*\*45 grid steps"):
        plan(epsilon=1e-12)
    with pytest.raises(CorrDPError, match="failure_probability"):
        plan().radius(0.0)
