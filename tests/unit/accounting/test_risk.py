"""Risk against slow independent computations, closed forms and real attacks."""

import math
import pickle

import dp_accounting
import mpmath
import numpy as np
import pytest
from dp_accounting import pld

from corrdp.accounting import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    SampledGaussianEvent,
    attack_risk,
    compose_delta,
    true_positive_rate,
)
from corrdp.accounting._composition import compose_curve
from corrdp.exceptions import CorrDPError

RATES = (0.001, 0.01, 0.1, 0.5, 0.9)


def slow_gaussian_rate(mu, rate):
    """Integrate the other density beyond the threshold with this false alarm rate."""
    threshold = float(-mpmath.sqrt(2) * mpmath.erfinv(2 * mpmath.mpf(rate) - 1))
    pieces = [threshold, threshold + 2, threshold + 5, threshold + 20 + mu]
    return float(mpmath.quad(lambda x: mpmath.npdf(x, mu, 1), pieces))


def best_rates(likely, other, rates):
    """Return the best true positive rate of two discrete laws, by sorting outcomes."""
    order = np.argsort(-np.log(np.maximum(likely, 1e-300) / np.maximum(other, 1e-300)))
    found = np.concatenate([[0.0], np.cumsum(likely[order])])
    alarms = np.concatenate([[0.0], np.cumsum(other[order])])
    return np.interp(rates, alarms, found)


def sampled_pair(rate, contribution, change, width=12.0, n_cells=24_001):
    """Return the masses of one sampled step with and without the change, on cells."""
    points = np.linspace(-width, width, n_cells)

    def law(shift):
        bump = np.exp(-0.5 * (points - shift) ** 2)
        masses = (1 - rate) * np.exp(-0.5 * points**2) + rate * bump
        return masses / masses.sum()

    return law(contribution), law(contribution - change)


def slow_composition(likely, other, n_steps, rates, *, cell=1e-3):
    """Return bounds on the true positive rates of n steps, losses rounded both ways."""
    loss = np.log(likely / other)
    answers = []
    for rounding in (np.floor, np.ceil):
        cells = rounding(loss / cell).astype(int)
        first = cells.min()
        masses = np.bincount(cells - first, weights=likely)
        size = 2 ** math.ceil(math.log2(n_steps * masses.size))
        total = np.fft.irfft(np.fft.rfft(masses, size) ** n_steps, size)
        losses = (n_steps * first + np.arange(total.size)) * cell
        # P's masses and losses alone give Q's masses.
        answers.append(
            best_rates(
                np.maximum(total, 0), np.maximum(total, 0) * np.exp(-losses), rates
            )
        )
    return answers


@pytest.mark.parametrize("mu", [0.125, 1.0, 3.5])
def test_gaussian_rates_are_those_of_integrated_densities(mu):
    event = [GaussianEvent(mu / 2, count=4)]
    for rate in RATES:
        shown = true_positive_rate(event, false_positive_rate=rate)
        assert shown == pytest.approx(slow_gaussian_rate(mu, rate), rel=1e-9)
    risk = attack_risk(event)
    assert risk.mu == pytest.approx(mu)
    assert risk.mu_is_exact
    assert risk.true_positive_rate[0.01] == pytest.approx(slow_gaussian_rate(mu, 0.01))
    assert risk.true_positive_rate[0.001] == pytest.approx(
        slow_gaussian_rate(mu, 0.001)
    )
    assert risk.guess[0.1] == pytest.approx(slow_gaussian_rate(mu, 0.1))
    largest = max(
        slow_gaussian_rate(mu, rate) - rate
        for rate in (float(mpmath.ncdf(-mu / 2)), 0.2, 0.3)
    )
    assert risk.advantage == pytest.approx(largest)


@pytest.mark.parametrize(
    ("rate", "contribution", "change"), [(0.3, 1.0, 2.0), (0.05, 2.0, 1.0)]
)
def test_one_sampled_step_is_never_understated_and_hardly_overstated(
    rate, contribution, change
):
    likely, other = sampled_pair(rate, contribution, change)
    event = [SampledGaussianEvent(rate, contribution, change, 1)]
    for asked in (0.001, 0.01, 0.1):
        worst = max(best_rates(likely, other, asked), best_rates(other, likely, asked))
        shown = true_positive_rate(event, false_positive_rate=asked)
        assert worst * (1 - 1e-4) <= shown <= worst * 1.002


def test_many_sampled_steps_lie_where_a_slow_composition_puts_them():
    rate, contribution, n_steps = 0.1, 0.8, 12
    likely, other = sampled_pair(rate, contribution, 2 * contribution)
    rates = np.array([0.001, 0.01, 0.1, 0.5])
    low, high = slow_composition(likely, other, n_steps, rates)
    events = [SampledGaussianEvent(rate, contribution, 2 * contribution, n_steps)]
    shown = [true_positive_rate(events, false_positive_rate=float(r)) for r in rates]
    assert (np.array(shown) >= low).all()
    assert (np.array(shown) <= high * 1.001).all()
    risk = attack_risk(events)
    assert not risk.mu_is_exact
    # The Gaussian curve of this mu lies above all of them, and touches them somewhere.
    above = [slow_gaussian_rate(risk.mu, float(r)) for r in rates]
    assert (np.array(above) >= low).all()
    less = [slow_gaussian_rate(0.9 * risk.mu, float(r)) for r in (1e-4, *rates)]
    lowest = slow_composition(likely, other, n_steps, np.array([1e-4, *rates]))[0]
    assert (np.array(less) < lowest).any()


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_laplace_has_its_closed_form(epsilon):
    def closed(rate):
        if rate < math.exp(-epsilon) / 2:
            return math.exp(epsilon) * rate
        if rate <= 0.5:
            return 1 - math.exp(-epsilon) / (4 * rate)
        return 1 - math.exp(-epsilon) * (1 - rate)

    for rate in RATES:
        shown = true_positive_rate([LaplaceEvent(epsilon)], false_positive_rate=rate)
        assert closed(rate) * (1 - 1e-9) <= shown <= closed(rate) * 1.001
    risk = attack_risk([LaplaceEvent(epsilon)])
    assert risk.advantage == pytest.approx(-math.expm1(-epsilon / 2), rel=1e-3)
    assert risk.advantage >= -math.expm1(-epsilon / 2) * (1 - 1e-9)


def test_mixed_releases_have_the_curve_of_another_accountant():
    """Every point (epsilon, delta) of dp-accounting's curve bounds the rates."""
    accountant = pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    accountant.compose(dp_accounting.LaplaceDpEvent(1 / 0.3), 5)
    accountant.compose(dp_accounting.GaussianDpEvent(1 / 0.4), 2)
    epsilons = np.linspace(-8.0, 8.0, 321)
    deltas = np.array([accountant.get_delta(float(e)) for e in np.abs(epsilons)])
    # A negative epsilon is the curve seen from the other side.
    deltas = np.where(epsilons < 0, 1 - np.exp(epsilons) * (1 - deltas), deltas)
    risk = attack_risk([LaplaceEvent(0.3, 5), GaussianEvent(0.4, 2)])
    assert risk.advantage == pytest.approx(accountant.get_delta(0.0), rel=2e-3)

    def outside(rate):
        return float(np.min(np.exp(epsilons) * rate + deltas))

    for rate in (0.001, 0.01):
        assert risk.true_positive_rate[rate] == pytest.approx(outside(rate), rel=2e-3)
    for prior in (0.01, 0.1, 0.5):
        assert risk.guess[prior] == pytest.approx(outside(prior), rel=2e-3)


def test_an_open_failure_is_counted():
    risk = attack_risk([ApproximateEvent(1.0, 1e-3)])
    assert risk.true_positive_rate[0.001] == pytest.approx(1e-3 + math.e * 1e-3)


@pytest.mark.parametrize(
    ("rate", "contribution", "change", "n_steps", "mu"),
    [(0.02, 1.0, 0.5, 100, 0.0), (0.4, 0.5, 1.0, 7, 0.3)],
)
def test_every_point_of_the_curve_is_a_delta_that_holds(
    rate, contribution, change, n_steps, mu
):
    events = [
        SampledGaussianEvent(rate, contribution, change, n_steps),
        GaussianEvent(mu),
    ]
    epsilons, deltas = compose_curve(events)
    assert epsilons[0] == 0.0
    for place in (len(epsilons) // 4, len(epsilons) // 2):
        # Both are bounds from above; the one on the finer grid is the lower one.
        finer = compose_delta(events, epsilon=float(epsilons[place]))
        assert finer * (1 - 1e-9) <= deltas[place] <= finer * 1.01


def test_a_curve_of_gaussian_events_alone_is_refused():
    with pytest.raises(CorrDPError, match="known exactly"):
        compose_curve([GaussianEvent(1.0)])


def bayes_success(positions, prior):
    """Return how often the best guess is right, for a number with unit noise."""
    points = np.linspace(-12, 12 + max(positions), 200_001)
    joint = [
        p * np.exp(-0.5 * (points - x) ** 2) / math.sqrt(2 * math.pi)
        for x, p in zip(positions, prior, strict=True)
    ]
    return float(np.max(joint, axis=0).sum() * (points[1] - points[0]))


@pytest.mark.parametrize(
    ("positions", "prior"),
    [
        ((0.0, 1.2), (0.5, 0.5)),
        ((0.0, 1.2), (0.1, 0.9)),
        ((0.0, 0.6, 1.2), (1 / 3, 1 / 3, 1 / 3)),
        (tuple(np.linspace(0, 1.2, 10)), (0.1,) * 10),
    ],
)
def test_no_guess_beats_the_bound_on_guesses(positions, prior):
    success = bayes_success(positions, prior)
    bound = true_positive_rate([GaussianEvent(1.2)], false_positive_rate=max(prior))
    assert max(prior) < success <= bound
    if len(prior) == 2 and prior[0] == prior[1]:
        assert success == pytest.approx(attack_risk([GaussianEvent(1.2)]).even_odds)
    # Power: the claim of a third of the noise would be found false.
    weak = true_positive_rate([GaussianEvent(0.02)], false_positive_rate=max(prior))
    assert success > weak or max(prior) == 0.9


def test_a_rate_outside_its_range_is_refused():
    with pytest.raises(CorrDPError, match="false_positive_rate"):
        true_positive_rate([GaussianEvent(1.0)], false_positive_rate=1.5)


def test_risk_is_json():
    document = attack_risk([GaussianEvent(0.5)]).to_json()
    assert set(document["true_positive_rate"]) == {"0.01", "0.001"}
    assert set(document["guess"]) == {"0.01", "0.1", "0.5"}
    assert document["even_odds"] == pytest.approx(0.5 + document["advantage"] / 2)


@pytest.mark.parametrize("epsilon", [0.5, 30.0, 500.0])
def test_one_pair_of_numbers_has_the_curve_of_its_worst_release(epsilon):
    """At most delta + (1 - delta) (e^epsilon - 1) / (e^epsilon + 1) apart."""
    risk = attack_risk([ApproximateEvent(epsilon=epsilon, delta=1e-6)])
    worst = 1e-6 + (1 - 1e-6) * math.tanh(epsilon / 2)
    assert risk.advantage == pytest.approx(worst, rel=1e-9)


def test_very_large_losses_are_bounded_by_their_sums():
    events = [ApproximateEvent(epsilon=80.0, delta=1e-6, count=3)]
    risk = attack_risk(events)
    assert 1 - 1e-5 < risk.advantage <= 1.0
    certain = [ApproximateEvent(epsilon=80.0, delta=0.5, count=3)]
    assert attack_risk(certain).advantage == 1.0


def test_the_curve_of_one_pair_is_the_closed_form():
    epsilons, deltas = compose_curve([ApproximateEvent(epsilon=2.0, delta=1e-3)])
    worst = 1e-3 + (1 - 1e-3) * -np.expm1(epsilons - 2.0) / (1 + math.exp(-2.0))
    np.testing.assert_allclose(deltas, worst, rtol=1e-12)


def test_a_risk_can_be_kept_and_not_changed():
    risk = attack_risk([GaussianEvent(0.5)])
    again = pickle.loads(pickle.dumps(risk))
    assert again == risk
    with pytest.raises(TypeError):
        again.guess[0.5] = 0.0
