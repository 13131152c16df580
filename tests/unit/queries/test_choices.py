"""Quantiles by draw: how far scores move, what is drawn, what it costs, its radius."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from corrdp.exceptions import CorrDPError, MissingBoundError
from corrdp.mechanisms.noise import flipped_choice, flipped_choices, grid_rate
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    NumberDomain,
    Policy,
    Slot,
)
from corrdp.queries import Quantiles, answer_queries, parse_ask, plan_queries
from corrdp.queries._choices import Grid, RankChoice, choice_rate, rank_radius
from corrdp.queries._release import answers_of

POLICY = Policy(
    (
        Feature("x", "sensitive", NumberDomain(0, 3, bins=3, missing=Slot())),
        Feature("g", "insensitive", CategoryDomain(("a", "b")), leakage=0.5),
        Feature("h", "insensitive", BooleanDomain(), leakage=0.25),
        Feature("z", "insensitive", NumberDomain(0, 1), leakage=0.5),
        Feature("p", "public", NumberDomain(0, 10)),
    )
)
GRID = Grid(0, 3, 0, 1)
N_RUNS, FAILURE, FALSE_ALARM = 2_000, 0.05, 1e-9
LIMIT = int(stats.binom.isf(FALSE_ALARM, N_RUNS, FAILURE))


def plan_of(*asks, epsilon=1.0, delta=0.0, n_rows=1_000, **options):
    budget = Budget(epsilon=epsilon, delta=delta)
    return plan_queries(POLICY, asks, budget=budget, n_rows=n_rows, **options)


def methods_of(plan):
    return [getattr(query, "method", None) for query in plan.queries]


@pytest.mark.parametrize("probability", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("clauses", ["", " by g", " where h", " by g (a) where h"])
def test_scores_move_by_one_row_in_as_many_cells_as_priced(probability, clauses):
    """All tables of two rows over all corners, every change of one row."""
    ask = parse_ask(f"quantiles(x, {probability!r}){clauses}")
    (moment,) = Quantiles("x", ask.probabilities, ask.by, ask.groups, ask.where,
                          "choice").moments(POLICY)  # fmt: skip
    assert isinstance(moment, RankChoice)
    values = [(x, g, h) for x in (0.0, 3.0, np.nan) for g in "ab" for h in (0, 1)]
    if not clauses:
        values = [(x, "a", 1) for x in (0.0, 1.0, 2.0, 3.0, np.nan)]
    scored = {}
    for rows in itertools.combinations_with_replacement(range(len(values)), 2):
        table = pd.DataFrame([values[r] for r in rows], columns=["x", "g", "h"])
        table["h"] = table["h"].astype(bool)
        scored[rows] = np.stack(list(moment.scores(POLICY, table, GRID)))
    changes = {"x": 0, "g": 1, "h": 2}
    for name in changes:
        absolute, cells = moment.movement(POLICY, frozenset({name}))
        assert absolute == 2 * cells
        reached = 0
        for rows, before in scored.items():
            for kept, new in itertools.product((0, 1), range(len(values))):
                old, place = values[rows[1 - kept]], values[new]
                differ = [
                    c for c, i in changes.items() if repr(old[i]) != repr(place[i])
                ]
                if differ != [name]:
                    continue
                after = scored[tuple(sorted((new, rows[kept])))]
                moved = np.abs(before - after).max(axis=1)
                assert moved.max() <= 1
                reached = max(reached, int(np.count_nonzero(moved)))
        assert reached <= cells
        if name in ("x", *(c for c in "gh" if c in clauses)):
            assert reached > 0
    assert moment.movement(POLICY, frozenset({"z"})) == (0, 0)


def test_scores_are_computed_for_one_cell_at_a_time():
    """Places times cells may be more than memory holds, after the payment."""
    (moment,) = plan_of("median(x) by g", quantiles="choice").moments
    table = pd.DataFrame({"x": [0.0, 3.0], "g": ["b", "b"], "h": [True, True]})
    empty, full = found = [*moment.scores(POLICY, table, GRID)]
    assert iter(scores := moment.scores(POLICY, table, GRID)) is scores
    assert [one.shape for one in found] == [(len(GRID),)] * 2
    assert empty.max() == -1  # nobody has the rank in the first
    assert full.max() == 0


def test_quantiles_of_close_probabilities_have_names_of_their_own():
    asked = Quantiles("x", (0.5, 0.5000001), method="choice")
    table = pd.DataFrame({"x": [0.0, 3.0], "g": ["a", "b"], "h": [True, True]})
    (answer,) = answer_queries(table, POLICY, [asked], epsilon=1.0).answers
    assert list(answer.value) == ["0.5", "0.5000001"]


def test_a_class_pays_only_for_what_the_question_reads():
    plan = plan_of("median(x) where h", quantiles="choice")
    assert methods_of(plan) == ["choice"]
    priced = {name: plan.noise.epsilon(name) for name in plan.noise.movement.classes}
    assert priced["sensitive"] == pytest.approx(1.0, rel=1e-3)
    assert priced["insensitive:g"] == priced["insensitive:z"] == 0.0
    assert priced["insensitive:h"] == priced["sensitive"]
    split = plan_of("median(x) by g", quantiles="choice").noise
    twice = {n: split.movement.absolute[split.movement.row(n), 0] for n in priced}
    assert twice["sensitive"] == 2
    assert twice["insensitive:g"] == 4  # it leaves one cell and enters another


def flipped_law(scores, rate):
    """Return the law of `flipped_choice`: uniform among coins that came up."""
    coins = np.exp(rate * (np.array(scores) - max(scores)))
    points, weights = np.polynomial.legendre.leggauss(40)
    points, weights = (points + 1) / 2, weights / 2
    law = np.zeros(len(scores))
    for place in range(len(scores)):
        others = np.delete(coins, place)
        inside = np.prod(1 - others[None] + others[None] * points[:, None], axis=1)
        law[place] = coins[place] * float(weights @ inside)
    return law


def test_draws_follow_the_law_that_is_priced():
    """Hoeffding per place, refused with probability 1e-9; half the rate is caught."""
    scores, rate, n_draws = [0, -1, -3, -3, -8], grid_rate(0.5), 20_000
    generator = np.random.default_rng(1)
    drawn = flipped_choices(scores, rate=rate, size=n_draws, generator=generator)
    shares = np.bincount(drawn, minlength=5) / n_draws
    radius = math.sqrt(math.log(2 * 5 / FALSE_ALARM) / (2 * n_draws))
    assert np.all(np.abs(shares - flipped_law(scores, 0.5)) <= radius)
    assert np.any(np.abs(shares - flipped_law(scores, 0.25)) > radius)
    with pytest.raises(CorrDPError, match="must come from grid_rate"):
        flipped_choice(scores, rate=rate / 3, generator=generator)


def test_no_probability_changes_by_more_than_twice_the_rate():
    """The law of both neighbors, over all scores of three places that move by one."""
    worst = 0.0
    for scores in itertools.product((0, -1, -2), repeat=3):
        for moves in itertools.product((-1, 0, 1), repeat=3):
            moved = [a + b for a, b in zip(scores, moves, strict=True)]
            ratio = np.log(flipped_law(scores, 0.5) / flipped_law(moved, 0.5))
            worst = max(worst, float(np.abs(ratio).max()))
    assert 0.6 < worst <= 1.0 + 1e-12


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_ranks_are_within_their_radius_as_often_as_stated(kind, monkeypatch):
    """A true miss rate of 5 percent is refused with probability 1e-9.

    Draws at a twentieth of the rate are caught, and the radius, which holds for any
    rows, is at most five times what 95 percent of the draws need on these.
    """
    delta = 1e-6 if kind == "gaussian" else 0.0
    table = pd.DataFrame({"x": np.sort(np.random.default_rng(2).uniform(0, 3, 400))})
    plan = plan_of(
        "quantiles(x, 0.3)", n_rows=400, delta=delta, kind=kind, quantiles="choice"
    )
    (moment,), (scale,) = plan.moments, plan.noise.scales
    reach = plan.noise.radius(FAILURE)

    def misses(drawing_scale):
        generator, missed = np.random.default_rng(5), []
        grid = moment.grid(POLICY, scale=drawing_scale, n_rows=400)
        (scores,) = moment.scores(POLICY, table, grid)
        monkeypatch.setattr(RankChoice, "scores", lambda *_: scores[None])  # read once
        for _ in range(N_RUNS):
            (place,) = moment.choose(
                POLICY, table, scale=drawing_scale, kind=plan.noise.kind, n_rows=400,
                generator=generator,
            )  # fmt: skip
            missed.append(-scores[place])
        monkeypatch.undo()
        return np.array(missed)

    missed = misses(scale)
    (answer,) = answers_of(plan, np.array([3]), reach, FAILURE)
    assert np.sum(missed > answer.rank_radius) <= LIMIT
    assert answer.rank_radius <= 5.0 * np.quantile(missed, 1 - FAILURE)
    assert np.sum(misses(scale * 20) > answer.rank_radius) > LIMIT


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_rate_is_that_of_the_price(delta):
    """Twice the rate, or half of its square, is within what the class is charged."""
    kind = "gaussian" if delta else "laplace"
    plan = plan_of("median(x)", delta=delta, kind=kind, quantiles="choice")
    rate = float(choice_rate(plan.noise.scales[0]))
    (event,) = plan.noise.charged_events()["sensitive"]
    price, charged = (rate**2 / 2, event.rho) if delta else (2 * rate, event.epsilon)
    assert 0.99 * charged <= price <= charged


def test_gaussian_plans_draw_by_exponential_choice(monkeypatch):
    """Its concentrated price is what such plans state; the other has none."""
    table = pd.DataFrame({"x": np.linspace(0, 3, 100)})
    used = []
    for name in ("flipped_choice", "exponential_choice"):
        monkeypatch.setattr(
            f"corrdp.queries._choices.{name}",
            lambda *_, name=name, **__: used.append(name) or 0,
        )
    for delta, kind in ((0.0, "laplace"), (1e-6, "gaussian")):
        answer_queries(
            table,
            POLICY,
            ["median(x)"],
            epsilon=1.0,
            delta=delta,
            kind=kind,
            quantiles="choice",
        )
    assert used == ["flipped_choice", "exponential_choice"]


def test_the_rank_radius_counts_all_places():
    scale = plan_of("median(x)", quantiles="choice").noise.scales[0]
    rate = float(choice_rate(scale))
    radius = rank_radius(1_000, scale=scale, failure_probability=0.05)
    assert 1_000 * math.exp(-rate * radius) <= 0.05
    assert 1_000 * math.exp(-rate * (radius - 1)) > 0.05


def test_the_smaller_error_decides_how_a_quantile_is_answered():
    assert methods_of(plan_of("median(x)")) == ["choice"]
    assert methods_of(plan_of("median(x)", delta=1e-6)) == ["choice"]
    assert methods_of(plan_of("median(x)", "histogram(x)"))[0] == "counts"
    many = "quantiles(x, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)"
    assert methods_of(plan_of(many)) == ["counts"]
    nine = [f"quantiles(x, 0.{k})" for k in range(1, 10)]
    assert set(methods_of(plan_of(*nine))) == {"counts"}
    assert plan_of("median(x) - 1").queries[0].left.method == "counts"
    assert methods_of(plan_of("median(x)", quantiles="counts")) == ["counts"]
    assert methods_of(plan_of(many, quantiles="choice")) == ["choice"]
    assert methods_of(plan_of("median(z)")) == ["choice"]  # it has no bins
    with pytest.raises(MissingBoundError, match="no declared bins"):
        plan_of("median(z)", quantiles="counts")
    with pytest.raises(CorrDPError, match="one of auto, choice, counts, got"):
        plan_of("median(x)", quantiles="best")


def test_public_quantiles_are_exact_to_the_grid():
    table = pd.DataFrame({"p": [1.0, 2.0, 7.5, 9.0], "x": 1.0, "z": 0.5, "g": "a"})
    table["h"] = True
    result = answer_queries(
        table, POLICY, ["quantiles(p, 0, 0.5, 0.75, 1)"], epsilon=1.0
    )
    (answer,) = result.answers
    assert answer.values == (1.0, 2.0, 7.5, 9.0)
    assert set(answer.rank_radii) == {0.0}
    assert max(answer.radii) <= 1e-5
    assert result.certificate.epsilon == 0.0


def test_what_is_shown_of_a_draw_is_a_radius_in_ranks():
    table = pd.DataFrame({"x": np.linspace(0, 3, 400)})
    result = answer_queries(table, POLICY, ["median(x)"], epsilon=1.0, random_state=4)
    (answer,) = result.answers
    again = answer_queries(table, POLICY, ["median(x)"], epsilon=1.0, random_state=4)
    assert again.answers == result.answers
    assert answer.radius == max(answer.value, 3 - answer.value)  # the bounds
    assert answer.to_json()["rank_radius"] == answer.rank_radius > 0
    assert f"+- {answer.rank_radius:g} ranks" in result.to_text()
    assert f"{answer.rank_radius:g} ranks" in result.to_html()
    assert abs(answer.value - 1.5) <= 3 * answer.rank_radius / 400


def test_grids_have_round_steps_and_enough_places():
    for lower, upper, wanted in [(0, 100, 800), (-3, 7, 64), (1e-4, 2e-4, 300)]:
        grid = Grid.between(lower, upper, wanted)
        assert wanted <= len(grid) - 1 + 1e-9
        assert len(grid) <= 2.5 * wanted + 2
        assert grid.factor in (1, 2, 5)
    whole = Grid.between(17, 90, 500)
    numbers = np.arange(17.0, 91.0)
    assert [whole.value(whole.first + k) for k in whole.nearest(numbers)] == list(
        numbers
    )
    assert whole.nearest(np.array([0.0, 200.0])).tolist() == [0, len(whole) - 1]
