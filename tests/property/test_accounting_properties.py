"""What must hold for every geometry, curve and composition."""

import math

import numpy as np
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.special import log_ndtr

from corrdp.accounting import (
    GaussianEvent,
    LaplaceEvent,
    SampledGaussianEvent,
    compose_epsilon,
    event_from_json,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    sampled_delta,
    sampled_epsilon,
)

GRID = np.linspace(-14.0, 14.0, 56_001)
QUADRATURE_ERROR = 1e-8  # spacing^2 / 12 times the largest jump of a derivative


def hockey_stick(present, replaced, *, rate, epsilon):
    """Return H_{e^epsilon}(P || Q) of a sampled step with these two contributions.

    Only the plane of the two vectors matters. With u along `replaced` and v across,
    the density ratio is monotone in v, so v is integrated in closed form.
    """
    length = float(np.linalg.norm(replaced))
    direction = replaced / length if length > 0 else np.zeros_like(replaced)
    along = float(present @ direction)
    # Not from |present|^2 - along^2: the root of a rounding error is not small.
    across = float(np.linalg.norm(present - along * direction))
    log_rate, log_absent = math.log(rate), math.log1p(-rate)
    with np.errstate(divide="ignore"):
        growth = np.log(np.expm1(epsilon))
    log_against = np.logaddexp(
        growth + log_absent, epsilon + log_rate + length * (GRID - length / 2)
    )
    log_for = log_rate + along * (GRID - along / 2)
    log_base = -(GRID**2) / 2 - 0.5 * math.log(2 * math.pi)
    if across < 1e-9:
        values = np.exp(log_base + log_for) - np.exp(log_base + log_against)
        return float(trapezoid(np.maximum(values, 0.0), GRID))
    threshold = (log_against - log_for) / across + across / 2
    values = np.exp(log_base + log_for + log_ndtr(across - threshold))
    values -= np.exp(log_base + log_against + log_ndtr(-threshold))
    return float(trapezoid(values, GRID))


def excess(formula, present, replaced, *, rate, epsilon):
    """Return by how much a geometry surpasses a formula, in its worse direction."""
    contribution = max(np.linalg.norm(present), np.linalg.norm(replaced))
    change = float(np.linalg.norm(present - replaced))
    bound = formula(epsilon, rate=rate, contribution=float(contribution), change=change)
    return max(
        hockey_stick(present, replaced, rate=rate, epsilon=epsilon) - bound,
        hockey_stick(replaced, present, rate=rate, epsilon=epsilon) - bound,
    )


def symmetric_delta(epsilon, *, rate, contribution, change):
    """The tempting wrong formula: both contributions of the largest norm."""
    half = math.asin(min(change / (2 * contribution), 1.0))
    one = contribution * np.array([math.cos(half), math.sin(half)])
    other = contribution * np.array([math.cos(half), -math.sin(half)])
    return hockey_stick(one, other, rate=rate, epsilon=epsilon)


@st.composite
def geometries(draw):
    dimension = draw(st.integers(1, 5))
    coordinates = st.lists(
        st.floats(-1.0, 1.0), min_size=dimension, max_size=dimension
    ).map(np.array)
    scale = draw(st.floats(0.05, 2.0))
    return scale * draw(coordinates), scale * draw(coordinates)


rates = st.floats(1e-3, 0.999)
small_epsilons = st.floats(0.0, 1.0)


@settings(max_examples=150)
@given(geometries(), rates, small_epsilons)
@example((np.array([1.53125, 1.53125]), np.array([1.53125, 1.53125])), 0.875, 0.0)
def test_no_geometry_surpasses_the_formula(pair, rate, epsilon):
    found = excess(sampled_delta, *pair, rate=rate, epsilon=epsilon)
    assert found <= QUADRATURE_ERROR


@settings(max_examples=50)
@given(st.floats(0.2, 2.0), st.floats(0.05, 1.9), rates, small_epsilons)
def test_the_collinear_geometry_attains_the_formula(length, share, rate, epsilon):
    present = np.array([length])
    replaced = np.array([length * (1 - share)])
    found = excess(sampled_delta, present, replaced, rate=rate, epsilon=epsilon)
    assert abs(found) <= QUADRATURE_ERROR


def test_the_symmetric_formula_is_caught_by_the_same_search():
    present, replaced = np.array([1.0]), np.array([0.9])
    gap = excess(symmetric_delta, present, replaced, rate=0.01, epsilon=1e-3)
    true = hockey_stick(present, replaced, rate=0.01, epsilon=1e-3)
    assert gap > 1000 * QUADRATURE_ERROR
    assert gap > 0.1 * true


@settings(max_examples=60)
@given(
    st.tuples(rates, st.floats(0.01, 3.0), st.floats(0.01, 3.0)),
    st.sampled_from(["rate", "contribution", "change"]),
    st.floats(1.0, 3.0),
    st.floats(-2.0, 4.0),
)
def test_more_of_anything_never_costs_less(step, argument, factor, epsilon):
    smaller = dict(zip(("rate", "contribution", "change"), step, strict=True))
    larger = smaller | {argument: smaller[argument] * factor}
    assume(larger["rate"] <= 1.0)
    assert sampled_delta(epsilon, **smaller) <= sampled_delta(epsilon, **larger) * (
        1 + 1e-11
    )


@settings(max_examples=200)
@given(st.floats(-4.0, 3.0), st.floats(-300.0, -2.0))
def test_calibrate_then_price_returns_the_target(log_epsilon, log_delta):
    epsilon, delta = 10.0**log_epsilon, 10.0**log_delta
    mu = gaussian_mu(epsilon=epsilon, delta=delta)
    price = gaussian_epsilon(mu=mu, delta=delta)
    assert epsilon * (1 - 1e-10) <= price <= epsilon
    assert gaussian_delta(price, mu=mu) <= delta


@settings(max_examples=100)
@given(st.floats(1e-3, 20.0), st.floats(1.0, 2.0), st.floats(0.0, 30.0))
def test_gaussian_curve_is_monotone(mu, factor, epsilon):
    delta = gaussian_delta(epsilon, mu=mu)
    assert delta <= gaussian_delta(epsilon, mu=mu * factor) * (1 + 1e-12)
    assert gaussian_delta(epsilon * factor, mu=mu) <= delta * (1 + 1e-12)


events = st.one_of(
    st.builds(GaussianEvent, st.floats(0.01, 1.0), st.integers(1, 5)),
    st.builds(LaplaceEvent, st.floats(0.01, 1.0), st.integers(1, 5)),
    st.builds(
        SampledGaussianEvent,
        st.floats(0.01, 1.0),
        st.floats(0.1, 2.0),
        st.floats(0.05, 2.0),
        st.integers(1, 30),
        st.sampled_from(["poisson", "fixed_size"]),
    ),
)


@settings(max_examples=40)
@given(st.lists(events, min_size=1, max_size=3), events)
def test_epsilon_never_falls_under_composition(before, event):
    alone = compose_epsilon(before, delta=1e-6, grid=1e-3)
    together = compose_epsilon([*before, event], delta=1e-6, grid=1e-3)
    assert together >= alone * (1 - 1e-3)


@given(events)
def test_saved_events_load_equal(event):
    assert event_from_json(event.to_json()) == event


@settings(max_examples=30)
@given(
    st.floats(0.01, 0.5),
    st.floats(0.1, 1.5),
    st.floats(0.05, 2.0),
    st.integers(1, 200),
)
def test_sampling_never_costs_more_than_taking_everyone(rate, norm, share, n_steps):
    change = share * norm
    price = sampled_epsilon(
        rate=rate,
        contribution=norm,
        change=change,
        n_steps=n_steps,
        delta=1e-6,
        grid=1e-3,
    )
    unsampled = gaussian_epsilon(mu=change * math.sqrt(n_steps), delta=1e-6)
    assert price <= unsampled * (1 + 1e-3)
