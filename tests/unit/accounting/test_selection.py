"""The price of the best of several runs, against laws that are known exactly."""

import itertools
import json
import math

import mpmath
import numpy as np
import pytest
from scipy.integrate import trapezoid
from scipy.special import ndtr

from corrdp.accounting import (
    GaussianEvent,
    LaplaceEvent,
    SelectedGaussianEvent,
    attack_risk,
    compose_delta,
    compose_epsilon,
    event_from_json,
    gaussian_epsilon,
    gaussian_mu,
    renyi_divergence,
    selected_mu,
)
from corrdp.accounting._composition import compose_curve
from corrdp.accounting._selection import selected_log_delta, selected_profile
from corrdp.exceptions import CorrDPError

ORDERS = (1.1, 1.5, 2.0, 4.0, 10.0, 30.0)
EPSILONS = (0.0, 0.1, 0.3, 1.0, 2.0, 4.0)


def law_of_the_best(law, ranking, mean_runs):
    """Return the exact law of the best of a geometric number of draws.

    `ranking` lists outcomes from the worst to the best.
    """
    stop = 1 / mean_runs
    upto = np.concatenate([[0.0], np.cumsum(law[ranking])])
    generated = stop * upto / (1 - (1 - stop) * upto)
    found = np.empty_like(law)
    found[ranking] = np.diff(generated)
    return found


def renyi(p, q, order):
    return math.log(float(np.sum(p**order * q ** (1 - order)))) / (order - 1)


def excess(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def runs_of(shifts, cuts):
    """Return the law of (candidate, noisy score in a cell), candidates alike likely."""
    masses = [np.diff(np.concatenate([[0.0], ndtr(cuts - s), [1.0]])) for s in shifts]
    return np.concatenate(masses) / len(shifts)


# What three candidates move by under each class of neighbors, and its price.
CLASSES = {
    "sensitive": ((0.2, -0.2, 0.1), 0.2),
    "insensitive:a": ((0.9, 0.9, -0.9), 0.9),
    "insensitive:b": ((0.0, 0.05, 0.0), 0.05),
    "whole_record": ((-2.0, 1.5, 2.0), 2.0),
}


@pytest.mark.parametrize("mean_runs", [1.5, 4.0, 20.0])
@pytest.mark.parametrize("name", CLASSES)
def test_no_ranking_of_outcomes_tells_more_than_the_price(name, mean_runs):
    shifts, mu = CLASSES[name]
    cuts = np.array([-1.5, 0.0, 2.0])
    one, other = runs_of(shifts, cuts), runs_of((0.0,) * 3, cuts)
    event = SelectedGaussianEvent(mu, mean_runs)
    bounds = {order: renyi_divergence(event, order) for order in ORDERS}
    deltas = {e: compose_delta([event], epsilon=e) for e in EPSILONS}
    rng = np.random.default_rng(0)
    by_ratio = np.argsort(one / other)
    rankings = [by_ratio, by_ratio[::-1], *(rng.permutation(12) for _ in range(60))]
    for ranking in rankings:
        best = law_of_the_best(one, ranking, mean_runs)
        neighbor = law_of_the_best(other, ranking, mean_runs)
        for p, q in ((best, neighbor), (neighbor, best)):
            for order, bound in bounds.items():
                assert renyi(p, q, order) <= bound * (1 + 1e-9)
            for epsilon, delta in deltas.items():
                assert excess(p, q, epsilon) <= delta + 1e-12


def test_the_law_is_that_of_all_sequences_of_draws():
    law = np.array([0.5, 0.2, 0.3])
    ranking = np.array([2, 0, 1])
    place = np.argsort(ranking)
    mean_runs, found = 1.25, np.zeros(3)
    for runs in range(1, 9):
        chance = (1 / mean_runs) * (1 - 1 / mean_runs) ** (runs - 1)
        for draws in itertools.product(range(3), repeat=runs):
            best = max(draws, key=lambda outcome: place[outcome])
            found[best] += chance * np.prod(law[list(draws)])
    exact = law_of_the_best(law, ranking, mean_runs)
    assert found == pytest.approx(exact, abs=(1 - 1 / mean_runs) ** 8)


GRID = np.linspace(-12.0, 14.0, 20_001)


def gaussian_search(mu, mean_runs, *, best_is_high):
    """Return log densities of the best of runs N(mu, 1) and N(0, 1), each by value."""
    stop = 1 / mean_runs
    laws = []
    for shift in (mu, 0.0):
        log_density = -((GRID - shift) ** 2) / 2 - 0.5 * math.log(2 * math.pi)
        better = ndtr(shift - GRID) if best_is_high else ndtr(GRID - shift)
        weight = np.log(stop) - 2 * np.log(stop + (1 - stop) * better)
        laws.append(log_density + weight)
    return laws


@pytest.mark.parametrize("best_is_high", [True, False])
@pytest.mark.parametrize("mu", [0.06, 0.27, 1.0])
def test_gaussian_scores_stay_within_the_price_and_come_near_it(mu, best_is_high):
    event = SelectedGaussianEvent(mu, 20.0)
    laws = gaussian_search(mu, 20.0, best_is_high=best_is_high)
    epsilon = compose_epsilon([event], delta=1e-5)
    largest = 0.0
    for p, q in (laws, laws[::-1]):

        def excess_at(epsilon, p=p, q=q):
            gap = np.maximum(np.exp(p) - np.exp(epsilon + q), 0)
            return trapezoid(gap, GRID)

        for order in ORDERS:
            moment = trapezoid(np.exp(order * p + (1 - order) * q), GRID)
            assert math.log(moment) / (order - 1) <= renyi_divergence(event, order)
        assert excess_at(epsilon) <= 1e-5
        tried = np.linspace(0, epsilon, 50)
        deltas = np.array([excess_at(e) for e in tried])
        largest = max(largest, float(tried[np.argmax(deltas <= 1e-5)]))
    # Scores that follow the loss itself: the price is not far above what they cost.
    assert largest > (0.6 if best_is_high else 0.3) * epsilon


@pytest.mark.parametrize(("mu", "order"), [(0.05, 40.0), (0.3, 12.0), (1.5, 3.0)])
def test_renyi_price_is_that_of_many_digits(mu, order):
    mpmath.mp.dps = 40
    stop = mpmath.mpf(1) / 20

    def gain(z):
        weight = [
            mpmath.log(stop / (stop + (1 - stop) * mpmath.ncdf(-place)) ** 2)
            for place in (z, z - mpmath.mpf(mu))
        ]
        return order * weight[0] - (order - 1) * weight[1]

    places = np.linspace(-6, 8, 400)
    best = max(places.tolist(), key=lambda z: float(gain(mpmath.mpf(z))))
    fine = np.linspace(best - 0.05, best + 0.05, 200)
    largest = max(gain(mpmath.mpf(z)) for z in fine.tolist())
    exact = float(order * mpmath.mpf(mu) ** 2 / 2 + largest / (order - 1))
    found = renyi_divergence(SelectedGaussianEvent(mu, 20.0), order)
    assert exact * (1 - 1e-6) <= found <= exact * 1.002


@pytest.mark.parametrize("mu", [0.06, 0.3, 1.0])
def test_profile_is_the_integral_over_the_best_lines(mu):
    stop, z = 1 / 20, np.linspace(-9, 9 + mu, 4001)
    weight, other = (
        stop / (stop + (1 - stop) * ndtr(-place)) ** 2 for place in (z, z - mu)
    )
    w = np.linspace(-8, 8 + mu, 1501)
    ratio = np.exp(mu * w - mu**2 / 2)
    density = np.exp(-(w**2) / 2) / math.sqrt(2 * math.pi)
    for epsilon in (0.5 * mu, 3 * mu, 8 * mu):
        lines = ratio[:, None] * weight - math.exp(epsilon) * other
        expected = trapezoid(density * np.maximum(lines.max(axis=1), 0), w)
        found = math.exp(selected_log_delta(np.array([epsilon]), mu, 20.0)[0])
        assert expected * (1 - 1e-4) <= found <= expected * 1.05


@pytest.mark.parametrize("mu", [0.02, 0.3, 2.0])
def test_knots_are_a_convex_symmetric_profile(mu):
    knots, log_deltas = selected_profile(mu, 20.0)
    ratios, deltas = np.exp(knots), np.exp(log_deltas)
    slopes = np.diff(deltas) / np.diff(ratios)
    assert knots[0] == 0
    assert deltas[0] < 1
    assert np.all(np.diff(slopes) >= -1e-9)
    # Continued below 1 by symmetry, the slope does not fall at 1 either.
    assert slopes[0] >= (deltas[0] - 1) / 2 - 1e-9


@pytest.mark.parametrize("epsilon", [0.05, 0.2, 1.0, 4.0])
def test_twenty_candidates_cost_less_than_twice_one(epsilon):
    mu = gaussian_mu(epsilon=epsilon, delta=1e-5)
    price = compose_epsilon([SelectedGaussianEvent(mu, 20.0)], delta=1e-5)
    assert 1.5 * epsilon < price < 2.0 * epsilon
    fixed = gaussian_epsilon(mu=mu * math.sqrt(20), delta=1e-5)
    assert price < 0.45 * fixed
    allowed = selected_mu(epsilon, delta=1e-5, mean_runs=20.0)
    within = compose_epsilon([SelectedGaussianEvent(allowed, 20.0)], delta=1e-5)
    assert 0.995 * epsilon < within <= epsilon


def test_one_run_is_gaussian_and_no_movement_costs_nothing():
    assert compose_epsilon(
        [SelectedGaussianEvent(0.3, 1.0)], delta=1e-5
    ) == gaussian_epsilon(mu=0.3, delta=1e-5)
    assert renyi_divergence(SelectedGaussianEvent(0.0, 20.0), 4.0) == 0
    assert compose_epsilon([SelectedGaussianEvent(0.0, 20.0)], delta=1e-5) == 0
    assert selected_mu(1.0, delta=1e-5, mean_runs=1.0) == gaussian_mu(
        epsilon=1.0, delta=1e-5
    )


def test_small_movements_have_small_prices():
    tiny = [renyi_divergence(SelectedGaussianEvent(mu, 20.0), 8.0) for mu in (1e-4, 0)]
    assert tiny[0] == pytest.approx(20 * 8 * 1e-8 / 2, rel=1e-2)


def test_composition_with_others_costs_more_and_movement_without_bound_is_infinite():
    search, other = SelectedGaussianEvent(0.02, 20.0), LaplaceEvent(0.05)
    alone = compose_epsilon([search], delta=1e-5)
    assert alone < compose_epsilon([search, other], delta=1e-5) <= alone + 0.05
    assert compose_epsilon([SelectedGaussianEvent(100.0, 20.0)], delta=1e-5) == math.inf
    assert compose_delta([SelectedGaussianEvent(100.0, 20.0)], epsilon=1.0) == 1
    assert attack_risk([SelectedGaussianEvent(100.0, 20.0)]).advantage == 1
    risk = attack_risk([search])
    assert attack_risk([GaussianEvent(0.02)]).advantage < risk.advantage < 0.1


def test_event_survives_json_and_refuses_less_than_one_run():
    event = SelectedGaussianEvent(0.3, 20.0)
    assert event_from_json(json.loads(json.dumps(event.to_json()))) == event
    with pytest.raises(CorrDPError, match="mean_runs"):
        SelectedGaussianEvent(0.3, 0.5)
    with pytest.raises(CorrDPError, match="mu"):
        SelectedGaussianEvent(-1.0, 5.0)


@pytest.mark.parametrize("mu", [1001.0, 1e5, 1e10, 1e100])
@pytest.mark.parametrize("mean_runs", [1.0001, 5.0, 1e12])
def test_runs_that_tell_all_are_not_free(mu, mean_runs):
    """Their curve once was no number, and the release was left out of every sum."""
    event = SelectedGaussianEvent(mu, mean_runs)
    for events in ([event], [event, LaplaceEvent(0.1)], [event, GaussianEvent(0.1)]):
        assert compose_epsilon(events, delta=1e-6) == math.inf
        assert compose_delta(events, epsilon=1.0) == 1.0
    assert renyi_divergence(event, 2.0) == math.inf
    assert compose_curve([event])[1].tolist() == [1.0]
    assert 0.0 < selected_mu(mu**2, delta=1e-6, mean_runs=mean_runs) <= 1000.0
