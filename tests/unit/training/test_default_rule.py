"""The default rule is a function of public numbers, and falls back where it should."""

import inspect
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrdp.estimators import LinearRegression
from corrdp.policy import (
    Budget,
    CategoryDomain,
    ColumnRole,
    Feature,
    Label,
    NeighborRelation,
    NumberDomain,
    Policy,
    PolicyEncoder,
    neighbor_classes,
)
from corrdp.training import (
    SQUARED_LOSS,
    GradientSensitivity,
    LogisticLoss,
    PlanInputs,
    _candidates,
    _expectations,
    default_plan,
    or_constant,
    plan_spending,
    standard_plan,
    whole_record_spending,
)
from corrdp.training import _default_rule as module


def facts_of(
    *,
    n_insensitive=3,
    leakage=0.2,
    n_rows=2000,
    epsilon=1.0,
    logistic=True,
    one=True,
    levels="abc",
):
    relation = "one_insensitive" if one else "all_insensitive"
    policy = Policy(
        (
            Feature("s", ColumnRole.SENSITIVE, NumberDomain(0, 1)),
            *(
                Feature(
                    f"u{i}",
                    ColumnRole.INSENSITIVE,
                    NumberDomain(0, 1) if i % 2 else CategoryDomain(tuple(levels)),
                    leakage=leakage if one else None,
                )
                for i in range(n_insensitive)
            ),
        ),
        Label("y", NumberDomain(0, 1), score=0.0),
        relation=NeighborRelation(relation),
        block_leakage=None if one else leakage,
    )
    spending = plan_spending(
        policy,
        neighbor_classes(policy),
        budget=Budget(epsilon=epsilon, delta=1e-6),
        adapts_residual_bound=not logistic,
    )
    return PlanInputs(
        PolicyEncoder(policy).blocks_,
        spending,
        n_rows,
        LogisticLoss() if logistic else SQUARED_LOSS,
    )


def test_nothing_of_the_data_is_a_parameter():
    names = set(inspect.signature(PlanInputs).parameters)
    public = {"blocks", "spending", "n_rows", "loss", "leakage"}
    free = {"label_deviation"}  # of labels that no class changes
    assert names == public | free | {"farther"}  # which the rule sets


def test_many_insensitive_features_that_leak_little_get_noise_by_groups():
    facts = facts_of(n_insensitive=20, leakage=0.05)
    ordinary = whole_record_spending(facts.spending)
    plan = default_plan(facts, ordinary)
    assert plan.noise == "corr"
    assert plan.predicted_error < standard_plan(facts).predicted_error


def test_full_leakage_falls_back_to_plain_noise():
    facts = facts_of(n_insensitive=6, leakage=1.0, one=False, logistic=False)
    ordinary = whole_record_spending(facts.spending)
    plan = default_plan(facts, ordinary)
    assert plan.noise == "standard"
    assert plan.spending is ordinary


@settings(max_examples=15)
@given(
    n_insensitive=st.integers(1, 5),
    leakage=st.floats(0.0, 1.0),
    epsilon=st.floats(0.01, 5.0),
    logistic=st.booleans(),
    one=st.booleans(),
)
def test_the_plan_never_predicts_more_error_than_plain_noise(
    n_insensitive, leakage, epsilon, logistic, one
):
    facts = facts_of(
        n_insensitive=n_insensitive,
        leakage=leakage,
        epsilon=epsilon,
        logistic=logistic,
        one=one,
    )
    ordinary = whole_record_spending(facts.spending)
    plain = standard_plan(replace(facts, spending=ordinary))
    plan = default_plan(facts, ordinary)
    assert plan.predicted_error <= plain.predicted_error
    assert _candidates.STEPS[0] <= plan.n_steps <= _candidates.STEPS[1]


def test_more_rows_and_more_budget_mean_less_predicted_error():
    errors = [
        default_plan(facts_of(n_rows=n, epsilon=e)).predicted_error
        for n, e in [(500, 0.1), (500, 1.0), (5000, 1.0)]
    ]
    assert errors[0] > errors[1] > errors[2]


def test_insensitive_groups_bound_influence_and_sensitive_ones_cannot():
    plan = default_plan(facts_of(n_insensitive=20, leakage=0.05, epsilon=0.1))
    bounds = {g.name: g.influence_bound for g in plan.layout.groups}
    assert math.isinf(bounds["sensitive"])
    assert math.isinf(bounds["intercept"])
    assert np.isfinite([b for n, b in bounds.items() if n.startswith("u")]).all()


def test_a_column_of_one_value_is_planned_without_a_word_from_numpy():
    # Its codes have no radius, and a bound that is infinite stays so: 0 * inf is not
    # a number. Warnings are errors in tests.
    plan = default_plan(facts_of(leakage=0.05, n_rows=20_000, levels="a"))
    names = [group.name for group in plan.layout.groups]
    assert "u0" in names
    sensitivity = GradientSensitivity(plan.loss, plan.layout, plan.spending.classes)
    assert np.isfinite(sensitivity.bounds(np.ones(plan.layout.n_columns))).all()
    table = sensitivity.movement
    assert not np.isnan(table.influence_norm).any()
    assert not np.isnan(table.cap).any()


def test_text_names_groups_classes_and_steps():
    text = default_plan(facts_of()).to_text()
    for word in ("sensitive", "whole_record", "clip norm", "full-batch steps"):
        assert word in text


def test_steps_can_be_set_without_spending_more():
    plan = default_plan(facts_of())
    longer = plan.with_steps(4 * plan.n_steps)
    assert longer.spending is plan.spending
    per_step = longer.spending.step_mu(longer.n_steps)
    assert per_step["sensitive"] == pytest.approx(
        plan.spending.step_mu(plan.n_steps)["sensitive"] / 2
    )


def test_a_walk_under_one_norm_may_grow_early_where_noise_is_little():
    found = {}
    for epsilon in (0.01, 0.1, 3.0, 10.0):
        plan = standard_plan(facts_of(epsilon=epsilon))
        little = plan.prediction.compared_part < _candidates.LITTLE_NOISE
        found[epsilon] = plan.patience
        assert plan.patience == (0.0 if little else 0.5)
    assert found[0.01] > found[10.0]
    assert default_plan(facts_of(epsilon=10.0)).patience == 0.5
    assert standard_plan(facts_of(epsilon=10.0, logistic=False)).patience == 1.0


def test_few_rows_predict_what_coefficients_explain_on_their_own_rows():
    few, many = facts_of(n_rows=60, epsilon=0.5), facts_of(n_rows=10**6, epsilon=0.5)
    assert few.own_gain > 100 * many.own_gain
    for facts in (few, many):
        found = default_plan(facts).prediction
        told = facts.gain - facts.own_gain
        walking = 1 / (1 / found.walking + 1 / told)
        assert 0 < found.left < facts.own_gain
        assert found.compared == pytest.approx(walking + found.left)
        assert found.excess < facts.gain
    # Of a walk that noise stops early much is left, of one that ends nearly nothing.
    assert default_plan(few).prediction.left > 0.5 * few.own_gain
    assert default_plan(many).prediction.left < 0.01 * many.own_gain
    numbers = default_plan(facts_of(n_rows=60, logistic=False)).prediction
    assert numbers.left == numbers.own_gain == 0


def test_with_little_noise_numbers_are_cut_farther_out_and_influence_is_free():
    def plans(n_rows, **options):
        facts = facts_of(n_rows=n_rows, **options)
        plan = default_plan(facts, whole_record_spending(facts.spending))
        (number,) = (g for g in plan.layout.groups if g.features == ("u1",))
        nominal = facts.radius(number.features)
        return plan, number.feature_radius / nominal, number.influence_bound

    noisy, radius, _ = plans(500)
    assert noisy.prediction.compared_part > module.NO_NOISE
    assert radius == pytest.approx(1.0)
    calm, radius, influence = plans(200_000)
    noise = calm.prediction.compared_part
    assert noise < module.FREE_INFLUENCE
    wanted = min(math.sqrt(module.NO_NOISE / noise), module.FARTHEST)
    assert radius == pytest.approx(wanted)
    assert influence == math.inf
    # Noise of labels that are numbers is predicted less well: their radius stays.
    assert plans(2_000, logistic=False, n_insensitive=8)[1] == pytest.approx(1.0)


def numbers_of(facts):
    """Return groups as predicted, with free bounds, and plain noise."""
    ordinary = whole_record_spending(facts.spending)
    farther = replace(facts, farther=module.FARTHER_RESIDUALS)
    choices = (facts, module.INFLUENCE_CHOICES), (farther, (math.inf,))
    bounded, free = (
        module._least_error(
            module._candidates(given, None, influences, in_two_walks=False)
        )
        for given, influences in choices
    )
    return bounded, free, standard_plan(replace(facts, spending=ordinary)), ordinary


@pytest.mark.parametrize(
    ("n_rows", "leakage", "freed"),
    [
        (1_000, 0.5, True),
        (2_000, 0.5, True),
        (500, 0.5, False),  # much noise
        (1_000, 0.05, False),  # bounds save most of it
    ],
)
def test_bounds_of_numbers_are_let_go_where_noise_is_little_without_them(
    n_rows, leakage, freed
):
    facts = facts_of(n_rows=n_rows, n_insensitive=8, leakage=leakage, logistic=False)
    bounded, free, _, ordinary = numbers_of(facts)
    least, part = (p.prediction.compared_part for p in (bounded, free))
    assert least < part
    assert freed == (part < min(module.FREE_NUMBERS, module.MOST_SAVED * least))
    chosen = default_plan(facts, ordinary)
    like = free if freed else bounded
    assert chosen.noise == "corr"
    assert chosen.layout.groups == like.layout.groups
    assert chosen.bound_growth == like.bound_growth
    assert chosen.expected_distance == like.expected_distance
    assert chosen.prediction == bounded.prediction  # what bounds bend is in none
    if freed:
        assert {g.influence_bound for g in chosen.layout.groups} == {math.inf}
        largest = chosen.bound_growth * chosen.loss.residual_limit
        assert largest == pytest.approx(
            module.FARTHER_RESIDUALS * facts.largest_residual
        )
        assert free.expected_distance == pytest.approx(
            _candidates.AVERAGED_DISTANCE * facts.nominal.expected_distance
        )


@pytest.mark.parametrize("n_insensitive", [1, 3, 8])
def test_numbers_get_ordinary_noise_unless_groups_save_more_than_they_bend(
    n_insensitive,
):
    taken = set()
    for n_rows in (500, 1_000, 2_000, 4_000, 20_000):
        facts = facts_of(
            n_rows=n_rows, n_insensitive=n_insensitive, leakage=0.5, logistic=False
        )
        bounded, free, flat, ordinary = numbers_of(facts)
        chosen = default_plan(facts, ordinary)
        groups = default_plan(facts)  # without ordinary noise among the candidates
        assert groups.layout.groups in (bounded.layout.groups, free.layout.groups)
        trained = free if groups.bound_growth == free.bound_growth else bounded
        plain = flat.prediction.compared_part
        saved = plain - trained.prediction.compared_part
        assert chosen.noise == ("standard" if saved < module.BENT else "corr")
        if chosen.noise == "standard":
            assert chosen.spending is ordinary
            assert chosen.layout.groups == flat.layout.groups
        least = min(bounded.prediction.compared, flat.prediction.compared)
        expected = replace(bounded.prediction, walking=least).bend.expected
        gain = bounded.prediction.gain
        assert chosen.predicted_error == pytest.approx(gain * expected(least / gain))
        taken.add(chosen.noise)
    assert "standard" in taken
    assert ("corr" in taken) == (n_insensitive > 1)


def test_numbers_leave_groups_under_a_weaker_promise_only_where_a_stronger_one_does():
    sensitive = Feature("s", "sensitive", NumberDomain(0, 1))
    others = (
        Feature(f"u{i}", "insensitive", NumberDomain(0, 1), leakage=0.5)
        for i in range(8)
    )
    policy = Policy((sensitive, *others), Label("y", NumberDomain(0, 1), score=0.0))
    # At 6,000 rows groups save less than they bend of the ordinary noise of semi.
    for n_rows, noise in ((1_000, "corr"), (6_000, "corr"), (20_000, "standard")):
        for method in ("corr", "semi"):
            model = LinearRegression(policy, epsilon=1.0, delta=1e-6, method=method)
            assert model.plan(n_rows).noise == noise, (method, n_rows)


def test_numbers_of_which_nothing_is_learned_are_a_constant_whatever_saves_noise():
    facts = facts_of(n_rows=110, n_insensitive=8, leakage=1.0, logistic=False)
    bounded, _, flat, ordinary = numbers_of(facts)
    assert bounded.prediction.learns_nothing
    chosen = default_plan(facts, ordinary)
    assert chosen.noise == "corr"
    assert chosen.prediction.learns_nothing
    assert flat.prediction.compared_part > bounded.prediction.compared_part


@pytest.mark.parametrize("flat", [False, True])
def test_numbers_are_left_to_a_constant_sooner_than_labels(flat):
    def plan(n_rows, logistic):
        facts = facts_of(n_rows=n_rows, n_insensitive=10, logistic=logistic)
        return standard_plan(facts) if flat else default_plan(facts)

    limit = (
        _candidates.NUMBERS_NOT_LEARNED_FLAT
        if flat
        else _candidates.NUMBERS_NOT_LEARNED
    )
    lost = {n: plan(n, False).prediction for n in (20, 60, 200, 600, 2_000)}
    assert {p.learns_nothing for p in lost.values()} == {False, True}
    for prediction in lost.values():
        assert prediction.learns_nothing == (prediction.compared_part > limit)
        assert prediction.learns_little >= prediction.learns_nothing
    n_rows = min(n for n, p in lost.items() if not p.learns_nothing)
    assert plan(n_rows, True).prediction.nothing_beyond > limit


@pytest.mark.parametrize("logistic", [True, False])
def test_no_choice_depends_on_how_a_bound_is_read(logistic, monkeypatch):
    def chosen():
        found = []
        for epsilon in (0.03, 0.1, 0.4, 2.0, 10.0):
            facts = facts_of(epsilon=epsilon, logistic=logistic)
            ordinary = whole_record_spending(facts.spending)
            for plan in (default_plan(facts, ordinary), standard_plan(facts)):
                found.append(
                    (
                        or_constant(plan).noise,
                        plan.n_steps,
                        plan.noise_deviation,
                        plan.expected_distance,
                        plan.patience,
                        plan.starts_at_constant,
                        plan.rows_needed(),
                        plan.layout.groups,
                    )
                )
        return found

    before = chosen()
    assert len({noise for noise, *_ in before}) > 1
    other = _expectations.Bend(odds_scale=40.0, band=7.0)
    monkeypatch.setattr(_expectations, "LABELS_BEND", other)
    monkeypatch.setattr(_expectations, "NUMBERS_BEND", other)
    assert default_plan(facts_of(logistic=logistic)).prediction.bend is other
    assert chosen() == before
