"""Adaptive choice: price of looks, two streams, exact draws."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from corrdp.accounting import WHOLE_RECORD
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.ledger import Ledger
from corrdp.mechanisms.noise import exponential_choice, grid_rate
from corrdp.policy import Budget, Feature, NumberDomain, Policy
from corrdp.synthesis import Synthesizer, release_tables
from corrdp.synthesis import _adaptive as adaptive
from corrdp.synthesis import _estimation as estimation
from corrdp.synthesis._budget import SCREENABLE_NOISE, mean_noise
from corrdp.synthesis._junction_tree import Room
from corrdp.synthesis._structure import TableShape
from synthesis_examples import POLICY, patients

FALSE_ALARM = 1e-9


def maker(**settings):
    settings = {"epsilon": 3.0, "delta": 1e-6, "random_state": 0} | settings
    return Synthesizer(POLICY, selection="adaptive", **settings)


def test_a_choice_has_the_probabilities_that_are_stated():
    scores, rate, n_draws = [0, 3, 5, 40], grid_rate(0.25), 5_000
    rng = np.random.default_rng(1)
    drawn = [
        exponential_choice(scores, rate=rate, generator=rng) for _ in range(n_draws)
    ]
    weights = np.exp(float(rate) * (np.array(scores[:3]) - 5.0))
    low = [exponential_choice(scores[:3], rate=rate, generator=rng) for _ in drawn]
    for place, share in enumerate(weights / weights.sum()):
        count = low.count(place)
        tails = binom.cdf(count, n_draws, share), binom.sf(count - 1, n_draws, share)
        assert min(tails) > FALSE_ALARM / 6
    # The power half: a rate twice as large would have been seen.
    wrong = np.exp(2 * float(rate) * (np.array(scores[:3]) - 5.0))
    assert binom.cdf(low.count(1), n_draws, (wrong / wrong.sum())[1]) > 1 - FALSE_ALARM
    assert drawn.count(3) > 0.99 * n_draws


def test_rates_that_are_not_exact_are_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(GuaranteeVoidError, match="grid_rate"):
        exponential_choice([1, 2], rate=Fraction(1, 3), generator=rng)
    with pytest.raises(GuaranteeVoidError, match="coarser"):
        grid_rate(1.5)


def test_search_attains_the_movement_of_scores_and_never_exceeds_it():
    shape = maker().shape(3)
    rows = np.zeros((10, len(shape.sizes)), dtype=np.int64)
    drawn = adaptive.DrawnCounts(rows, shape.sizes, shape.label, ())
    region = (1, len(shape.sizes) - 1)
    assert region[1] == shape.label
    own = list(itertools.product(*(range(shape.sizes[c]) for c in region)))
    moved = []
    for before, after in itertools.product(own, own):
        scores = []
        for cell in (before, after):
            codes = np.zeros((3, len(shape.sizes)), dtype=np.int64)
            codes[1, region] = cell
            counts = adaptive.count_cells(codes, region, shape.sizes)
            scores.append(adaptive.score(counts, region, drawn, shape, Fraction(2)))
        moved.append(abs(scores[0] - scores[1]))
    # Leaving the model's cell: one count too few there, one too many elsewhere.
    assert max(moved) == 6


def test_streams_stay_within_every_class_and_open_looks_are_free_for_the_sensitive():
    plan = maker().plan(3000)
    opened, guarded = plan.streams
    number = {name: i for i, name in enumerate(plan.columns.names)}
    ill = number["illness"]
    assert all(ill in region for region in guarded.regions)
    assert not any(ill in region for region in opened.regions)
    assert opened.cost("sensitive") == 0
    assert guarded.cost("sensitive") > 0
    for name, limit in plan.refinement.items():
        spent = opened.cost(name) + guarded.cost(name)
        assert spent <= Fraction(limit)
    assert opened.scale < guarded.scale


@pytest.fixture(scope="module")
def made():
    return maker().fit(patients(400))


def test_the_budget_is_spent_and_kept(made):
    assert 2.9 < made.certificate_.epsilon <= 3.0
    plan = made.plan_
    cost = sum(stream.cost(WHOLE_RECORD) for stream in plan.streams)
    assert plan.rho(WHOLE_RECORD) >= float(cost + plan.singles.cost(WHOLE_RECORD))


def test_the_price_of_looks_and_measurements_is_that_of_the_theorem():
    stream = maker().plan(3000).streams[0]
    name = next(n for n in stream.changed if stream.cost(n) > 0)
    expected = stream.n_rounds * (18 * stream.rate**2 + 1 / stream.scale**2)
    assert stream.cost(name) == expected


def test_noise_and_choices_are_those_of_the_plan(monkeypatch):
    """Every look and every table goes through the exact samplers, and no other way."""
    plan = maker().plan(500)
    shape = maker().shape(500)
    codes = plan.columns.codes(patients(500))
    looks, tables = [], []
    choice, noise = adaptive.exponential_choice, estimation.discrete_gaussian

    def recorded_choice(scores, *, rate, generator):
        looks.append(rate)
        return choice(scores, rate=rate, generator=generator)

    def recorded_noise(scale, *, size, generator):
        drawn = noise(scale, size=size, generator=generator)
        tables.append((scale, drawn))
        return drawn

    monkeypatch.setattr(adaptive, "exponential_choice", recorded_choice)
    monkeypatch.setattr(estimation, "discrete_gaussian", recorded_noise)
    rng = np.random.default_rng(0)
    release = release_tables(codes, plan, shape, noise=rng, choices=rng)
    n_rounds = sum(stream.n_rounds for stream in plan.streams)
    n_before = sum(scale > 0 for scale in plan.singles.scales + plan.pairs.scales)
    chosen, tables = release.tables[-n_rounds:], tables[n_before:]
    assert len(looks) == len(tables) == n_rounds
    assert set(looks) <= {stream.rate for stream in plan.streams}
    for table, (scale, drawn) in zip(chosen, tables, strict=True):
        stream = next(s for s in plan.streams if table.region in s.regions)
        assert scale == stream.scale
        exact = adaptive.count_cells(codes, table.region, shape.sizes)
        assert np.array_equal(table.counts, exact + drawn.reshape(exact.shape))


def test_a_seed_fixes_the_result_and_it_can_be_saved(made, tmp_path):
    again = maker().fit(patients(400))
    assert made.pairs_ == again.pairs_
    made.save(tmp_path / "saved")
    loaded = Synthesizer.load(tmp_path / "saved")
    assert loaded.selection == "adaptive"
    rows = made.sample(50, random_state=0)
    assert rows.equals(loaded.sample(50, random_state=0, output="pandas"))
    assert rows.equals(again.sample(50, random_state=0))


def test_without_guarded_or_open_candidates_there_is_one_stream():
    plan = maker(method="standard").plan(3000)
    assert len(plan.streams) == 1
    costs = [part.cost("sensitive") for part in (*plan.streams, plan.singles)]
    assert math.isclose(float(sum(costs)), plan.rho("sensitive"), rel_tol=1e-6)


def test_by_default_noise_of_the_pairs_decides_between_screening_and_looking():
    """Public numbers alone: a plan reads no rows."""

    def chosen(n_rows, **settings):
        return Synthesizer(POLICY, delta=1e-6, **settings).plan(n_rows)

    assert chosen(50, epsilon=0.5, method="standard").selection == "adaptive"
    assert chosen(1_000_000, epsilon=0.5, method="standard").selection == "screen"
    cheap = dict.fromkeys(POLICY.insensitive, 0.01)  # most pairs cost little
    assert chosen(50, epsilon=0.5, leakage=cheap).selection == "screen"
    screened = chosen(50, epsilon=0.5, selection="screen")
    assert screened.selection == "screen"
    noise = [
        mean_noise(plan.pairs, plan.columns.sizes, n_pairs=n_pairs, n_rows=n_rows)
        for n_rows in (50, 5_000, 1_000_000)
        for plan in [chosen(n_rows, epsilon=0.5, selection="screen")]
        for n_pairs in [math.comb(len(plan.columns.sizes), 2)]
    ]
    assert 1.0 >= noise[0] > SCREENABLE_NOISE > noise[2] > 0.0
    assert noise == sorted(noise, reverse=True)


def test_an_unknown_selection_is_refused():
    with pytest.raises(CorrDPError, match="auto, screen, adaptive"):
        Synthesizer(POLICY, epsilon=1.0, delta=1e-6, selection="both").plan(10)


def test_a_guarded_column_that_is_too_large_leaves_its_budget_to_others():
    """Then the guarded stream costs more than the least class could pay."""
    changed = {
        "sensitive": frozenset({0}),
        "insensitive:a": frozenset({1}),
        "insensitive:b": frozenset({2}),
        "insensitive:c": frozenset({3}),
        WHOLE_RECORD: frozenset({0, 1, 2, 3}),
    }
    limits = {"sensitive": 0.01, "insensitive:a": 0.03}
    limits |= {"insensitive:b": 0.1, "insensitive:c": 0.1}
    opened, guarded = adaptive.plan_streams(
        [(1, 2), (2, 3)], changed=changed, limits=limits, n_rounds=3
    )
    assert float(guarded.cost("insensitive:a")) == pytest.approx(0.03, rel=1e-2)
    both = opened.cost("insensitive:b") + guarded.cost("insensitive:b")
    assert both <= Fraction(0.1)


def test_exact_tables_of_public_columns_count_among_the_cells(monkeypatch):
    asked = []

    class Shape:
        sizes, n_rows, label, zeros, required = (2, 2, 2, 2), 4, None, (), []

        def room(self, held, share):
            asked.append(tuple(held))
            return Room(held, self.sizes, most=0)

    monkeypatch.setattr(adaptive, "fitted_model", lambda *_: (SampledOnce(), {}))
    stream = adaptive.Stream(((0, 1),), 1, grid_rate(0.1), Fraction(2), {})
    known = [adaptive.NoisyTable((2, 3), np.zeros((2, 2)), 0.0)]
    rng = np.random.default_rng(0)
    codes = np.zeros((4, 4), dtype=np.int64)
    found = adaptive.measure_adaptively(
        codes, [stream], Shape(), known, noise=rng, choices=rng
    )
    assert found == ()
    assert asked == [((2, 3),)]


class SampledOnce:
    def sample(self, n_rows, generator):
        return np.zeros((n_rows, 4), dtype=np.int64)


@pytest.mark.parametrize(
    ("names", "selection"), [("st", "auto"), ("st", "adaptive"), ("s", "adaptive")]
)
def test_where_no_table_is_small_enough_for_rounds_tables_are_screened(
    names, selection, tmp_path
):
    """And what a ledger was charged for is released."""
    policy = Policy(
        tuple(Feature(n, "sensitive", NumberDomain(0, 1, bins=200)) for n in names)
    )
    rows = np.random.default_rng(0).random((300, len(names)))
    frame = pd.DataFrame(rows, columns=list(names))
    budget = Budget(epsilon=2.0, delta=1e-4)
    ledger = Ledger.create(tmp_path / "l.ledger", policy, budget=budget)
    maker = Synthesizer(policy, epsilon=1.0, delta=1e-5, selection=selection)
    plan = maker.plan(len(frame))
    assert plan.selection == "screen"
    assert all(limit > 0 for limit in plan.refinement.values())
    assert len(maker.fit(frame, ledger=ledger).sample(5)) == 5


def test_tables_of_drawn_rows_are_those_that_are_counted_one_by_one():
    sizes = (3, 2, 4, 2)
    rows = np.random.default_rng(0).integers(0, sizes, (50, 4))
    regions = [(0,), (0, 1), (1, 2), (0, 3), (1, 3), (0, 1, 3), (1, 2, 3), (0, 1, 2)]
    for label, candidates in itertools.product((3, None), ((), regions)):
        shape = TableShape(sizes, 50, label, 1000)
        drawn = adaptive.DrawnCounts(rows, shape.sizes, shape.label, candidates)
        assert len(drawn) == 50
        for region in regions:
            counts = adaptive.count_cells(rows, region, sizes)
            np.testing.assert_array_equal(drawn[region], counts)
            np.testing.assert_array_equal(drawn[region], counts)


def test_rounds_of_wide_tables_share_models_and_candidates():
    for n_columns, rounds, seen in ((39, 1, 4096), (40, 2, 2048), (300, 15, 273)):
        shape = TableShape((2,) * n_columns, 10, None, 10_000)
        assert adaptive._pace(shape) == (rounds, seen)
    regions = list(itertools.combinations(range(20), 2))
    rng = np.random.default_rng(0)
    assert adaptive._seen(regions, 190, rng) == regions
    part = adaptive._seen(regions, 50, rng)
    assert len(set(part)) == 50
    assert set(part) < set(regions)


@pytest.mark.parametrize("most_draws", [64, 1, 0])
def test_what_there_is_no_room_for_is_never_chosen(most_draws, monkeypatch):
    """And the law of the others is that of a choice among them alone."""
    monkeypatch.setattr(adaptive, "_MOST_DRAWS", most_draws)
    room = Room([(0,), (1,), (2,)], (2, 2, 50), most=20 + 50)
    regions, rate = [(0, 2), (0, 1), (0,), (1,)], grid_rate(0.25)
    rng, n_draws = np.random.default_rng(0), 3000
    drawn = [
        adaptive._choice(regions, [60, 4, 0, 2], room, rate, rng)
        for _ in range(n_draws)
    ]
    weights = np.exp(float(rate) * np.array([4.0, 0.0, 2.0]))
    for region, share in zip(regions[1:], weights / weights.sum(), strict=True):
        count = drawn.count(region)
        tails = binom.cdf(count, n_draws, share), binom.sf(count - 1, n_draws, share)
        assert min(tails) > FALSE_ALARM / 6
    assert (0, 2) not in drawn
    full = Room([(0,), (1,), (2,)], (2, 2, 50), most=0)
    assert adaptive._choice(regions, [1, 2, 3, 4], full, rate, rng) is None


def test_in_a_full_model_few_draws_are_made(monkeypatch):
    """Each takes as long as to find room for several."""
    regions = list(itertools.combinations(range(40), 2))
    choice, draws = adaptive.exponential_choice, []
    monkeypatch.setattr(
        adaptive,
        "exponential_choice",
        lambda scores, **settings: draws.append(1) or choice(scores, **settings),
    )
    rng, scores = np.random.default_rng(0), list(range(len(regions)))
    singles = [(column,) for column in range(40)]
    full = Room(singles, (2,) * 40, most=0)
    assert adaptive._choice(regions, scores, full, grid_rate(0.25), rng) is None
    assert len(draws) == 64
