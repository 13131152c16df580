"""The paper's privacy lemmas against integrals, brute force and exact accounting."""

import math

import numpy as np
import pytest
from scipy.integrate import dblquad, quad, trapezoid
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import multivariate_normal, norm

from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError
from corrdp.theory import (
    CorrDPGuarantee,
    amplification_claim,
    amplified_epsilon,
    composed,
    gaussian_log_moment,
    gaussian_renyi_divergence,
    high_probability_composed,
    moments_epsilon,
    post_processed,
    proof_noise_variance,
    proof_order,
    subsampled,
    tail_delta,
    variability_loss,
    variability_loss_upper,
    whole_record,
)


def renyi_by_integration(first, second, order):
    """Definition A.2 in one dimension; arguments are (mean, variance)."""

    def integrand(x):
        log_first = norm.logpdf(x, first[0], math.sqrt(first[1]))
        log_second = norm.logpdf(x, second[0], math.sqrt(second[1]))
        if order == 1.0:
            return math.exp(log_first) * (log_first - log_second)
        return math.exp(order * log_first + (1 - order) * log_second)

    value, _ = quad(integrand, -60, 60, limit=500, epsabs=1e-13, points=[-3, 0, 3])
    return value if order == 1.0 else math.log(value) / (order - 1)


@pytest.mark.parametrize("order", [0.3, 0.9, 1.0, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("variances", [(1.0, 1.0), (1.0, 2.0), (1.2, 1.0)])
def test_renyi_divergence_is_the_integral(order, variances):
    first, second = (0.4, variances[0]), (-0.7, variances[1])
    value = gaussian_renyi_divergence(
        [first[0]], [[first[1]]], [second[0]], [[second[1]]], order=order
    )
    assert value == pytest.approx(renyi_by_integration(first, second, order), rel=1e-7)


def test_renyi_divergence_of_covariances_that_do_not_commute():
    first = ([0.2, -0.1], [[1.0, 0.3], [0.3, 0.8]])
    second = ([-0.1, 0.4], [[1.5, -0.4], [-0.4, 2.0]])
    order = 1.8
    p, q = multivariate_normal(*first), multivariate_normal(*second)
    integral, _ = dblquad(
        lambda y, x: p.pdf([x, y]) ** order * q.pdf([x, y]) ** (1 - order),
        -7,
        7,
        -7,
        7,
        epsabs=1e-7,
        epsrel=1e-7,
    )
    value = gaussian_renyi_divergence(*first, *second, order=order)
    assert value == pytest.approx(math.log(integral) / (order - 1), rel=1e-5)


def test_the_printed_determinant_identity_is_wrong_and_the_right_one_holds():
    first = np.array([[1.0, 0.3], [0.3, 0.8]])
    second = np.array([[1.5, -0.4], [-0.4, 2.0]])
    order, determinant = 1.8, np.linalg.det
    inverse = order * np.linalg.inv(first) + (1 - order) * np.linalg.inv(second)
    mixed = (1 - order) * first + order * second
    right = determinant(mixed) / (determinant(first) * determinant(second))
    printed = (
        determinant(first) ** -order
        * determinant(second) ** -(1 - order)
        / determinant(mixed)
    )
    assert determinant(inverse) == pytest.approx(right, rel=1e-12)
    assert abs(determinant(inverse) - printed) > 0.1 * right


@pytest.mark.parametrize("order", [2.0, 2.5, 3.0])
def test_renyi_divergence_is_infinite_beyond_positive_definiteness(order):
    # (1 - order) * 2 + order * 1 <= 0 from order 2 on; the bare formula would go on.
    assert gaussian_renyi_divergence([0.0], [[2.0]], [0], [[1.0]], order=order) == (
        math.inf
    )
    pair = ([0.0, 0.0], np.eye(2) * 2, [0.0, 0.0], np.eye(2))
    assert gaussian_renyi_divergence(*pair, order=order) == math.inf
    unguarded = (1 - order) * pair[1] + order * pair[3]
    assert np.linalg.det(unguarded) >= 0.0  # a determinant alone does not see it


def test_renyi_divergence_just_inside_is_finite_and_grows():
    values = [
        gaussian_renyi_divergence([0.0], [[2.0]], [0.0], [[1.0]], order=order)
        for order in (1.5, 1.9, 1.99, 1.999)
    ]
    assert np.all(np.diff(values) > 0)
    assert np.all(np.isfinite(values))


@pytest.mark.parametrize(
    ("covariance", "match"),
    [
        ([[1.0, 0.5], [0.1, 1.0]], "nan: not symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "smallest eigenvalue -1"),
        ([[0.0, 0.0], [0.0, 1.0]], "smallest eigenvalue 0"),
        ([[1.0]], r"shape \(2, 2\)"),
        ([[np.inf, 0.0], [0.0, 1.0]], "finite matrix"),
    ],
)
def test_covariances_are_checked(covariance, match):
    with pytest.raises(CorrDPError, match=match):
        gaussian_renyi_divergence([0, 0], np.eye(2), [0, 0], covariance, order=2.0)


def test_means_and_order_are_checked():
    with pytest.raises(CorrDPError, match="second_mean"):
        gaussian_renyi_divergence([0.0], [[1.0]], [0.0, 1.0], [[1.0]], order=2.0)
    with pytest.raises(CorrDPError, match="first_mean"):
        gaussian_renyi_divergence(["a"], [[1.0]], [0.0], [[1.0]], order=2.0)
    with pytest.raises(CorrDPError, match="order=0"):
        gaussian_renyi_divergence([0.0], [[1.0]], [0.0], [[1.0]], order=0)


def test_log_moment_is_order_times_renyi():
    shift, noise_scale, order = [0.3, 0.1], [2.0, 0.5], 3.0
    divergence = gaussian_renyi_divergence(
        shift, np.diag(np.square(noise_scale)), [0, 0], np.diag([4, 0.25]), order=4.0
    )
    moment = gaussian_log_moment(shift, noise_scale=noise_scale, order=order)
    assert moment == pytest.approx(order * divergence, rel=1e-12)


def test_a_coordinate_that_moves_without_noise_has_an_infinite_moment():
    moment = gaussian_log_moment([1.0, 0.1], noise_scale=[1.0, 0.0], order=1.0)
    assert moment == math.inf
    assert tail_delta(moment, epsilon=1.0, order=1.0) == 1.0
    assert gaussian_log_moment([1.0, 0.0], noise_scale=[1.0, 0.0], order=1.0) == 1.0


def exact_gaussian_delta(epsilon, mu):
    second = math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))
    return norm.cdf(-epsilon / mu + mu / 2) - second


def test_moments_epsilon_is_the_best_order_and_covers_the_exact_curve():
    for squared_ratio in (0.01, 0.5, 4.0):
        for delta in (1e-3, 1e-8):
            best = minimize_scalar(
                lambda log_order, s=squared_ratio, d=delta: (
                    (math.exp(log_order) + 1) * s / 2
                    - math.log(d) / math.exp(log_order)
                ),
                bounds=(-10, 10),
                method="bounded",
                options={"xatol": 1e-10},
            ).fun
            value = moments_epsilon(squared_ratio, delta=delta)
            assert value == pytest.approx(best, rel=1e-8)
            mu = math.sqrt(squared_ratio)
            assert exact_gaussian_delta(value, mu) <= delta
            assert exact_gaussian_delta(0.5 * value, mu) > delta  # half is caught


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("distance", [1.0, 0.2])
def test_noise_of_the_proof_is_private(epsilon, distance):
    shift, n_steps, delta = np.array([0.2, 0.01, 0.0]), 50, 1e-5
    variance = proof_noise_variance(
        shift, epsilon=epsilon, delta=delta, n_steps=n_steps, distance=distance
    )
    order = proof_order(epsilon=epsilon, delta=delta)
    moment = n_steps * gaussian_log_moment(
        shift, noise_scale=np.sqrt(variance), order=order
    )
    setting = {"epsilon": epsilon, "distance": distance}
    assert tail_delta(moment, order=order, **setting) <= delta * (1 + 1e-9)


def test_the_printed_square_of_epsilon_is_too_little_noise():
    shift, epsilon, delta = np.array([0.2]), 4.0, 1e-5
    variance = proof_noise_variance(shift, epsilon=epsilon, delta=delta, n_steps=1)
    order = proof_order(epsilon=epsilon, delta=delta)
    printed = gaussian_log_moment(
        shift, noise_scale=np.sqrt(variance / epsilon), order=order
    )
    assert tail_delta(printed, epsilon=epsilon, order=order) == 1.0


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: gaussian_log_moment([-1], noise_scale=[1], order=1), "shift"),
        (lambda: gaussian_log_moment([1], noise_scale=[1, 1], order=1), "noise_scale"),
        (lambda: gaussian_log_moment([1], noise_scale=[1], order=0), "order=0"),
        (lambda: tail_delta(-1.0, epsilon=1.0, order=1.0), "log_moment=-1.0"),
        (
            lambda: tail_delta(1.0, epsilon=1.0, order=1.0, distance=0.0),
            "distance=0.0",
        ),
        (lambda: moments_epsilon(-1.0, delta=1e-5), "squared_ratio=-1.0"),
        (lambda: moments_epsilon(1.0, delta=0.0), "delta=0.0"),
        (lambda: proof_order(epsilon=0.0, delta=1e-5), "epsilon=0.0"),
        (
            lambda: proof_noise_variance([1.0], epsilon=1.0, delta=1e-5, n_steps=0),
            "n_steps=0",
        ),
    ],
)
def test_arguments_of_the_moments_accountant_are_checked(call, match):
    with pytest.raises(CorrDPError, match=match):
        call()


def test_variability_loss_is_twice_the_log_moment_of_unequal_variances():
    here, there, order = 1.3, 1.1, 4.0
    divergence = gaussian_renyi_divergence(
        [0.0], [[there]], [0.0], [[here]], order=order + 1
    )
    loss = variability_loss(here, neighbor_variance=there, order=order)
    assert loss == pytest.approx(2 * order * divergence, rel=1e-12)


def test_variability_loss_is_infinite_when_the_mixture_is_not_positive():
    assert variability_loss(1.0, neighbor_variance=1.5, order=2.0) == math.inf
    assert math.isfinite(variability_loss(1.0, neighbor_variance=1.49, order=2.0))


def test_lemma_a9_at_the_edge_of_its_condition():
    for order in (0.5, 1.0, 30.0):
        setting = {"stability_constant": 2.0, "order": order}
        n_rows = math.ceil(10 * 2.0 * max(order, 1.0) / 0.25)
        upper = variability_loss_upper(0.25, n_rows=n_rows, **setting)
        for sign in (-1, 1):
            loss = variability_loss(
                0.25, neighbor_variance=0.25 + sign * 2.0 / n_rows, order=order
            )
            assert loss <= upper
            assert loss > 0.5 * upper  # without its 2/3 the bound would be too small
        with pytest.raises(GuaranteeVoidError, match="n_rows of at least"):
            variability_loss_upper(0.25, n_rows=n_rows - 1, **setting)


def test_post_processing_and_stable_subsampling_change_nothing():
    guarantee = CorrDPGuarantee(epsilon=1.0, delta=1e-6)
    assert post_processed(guarantee) == guarantee
    assert subsampled(guarantee, distance_is_preserved=True) == guarantee
    with pytest.raises(GuaranteeVoidError, match="stability condition"):
        subsampled(guarantee, distance_is_preserved=False)


def test_composition_adds():
    parts = [CorrDPGuarantee(epsilon=0.1, delta=1e-7)] * 10
    total = composed(parts)
    assert (total.epsilon, total.delta) == pytest.approx((1.0, 1e-6))
    assert total.epsilon_at(0.25) == pytest.approx(4.0)
    with pytest.raises(CorrDPError, match="at least one"):
        composed([])


def test_high_probability_composition_adds_deltas():
    guarantee = CorrDPGuarantee(epsilon=1.0, delta=1e-6)
    failing = high_probability_composed(guarantee, failure_probability=1e-6)
    assert failing == CorrDPGuarantee(epsilon=1.0, delta=2e-6)
    hopeless = high_probability_composed(
        CorrDPGuarantee(epsilon=1.0, delta=0.9), failure_probability=0.9
    )
    assert hopeless.delta == 1.0


def test_failure_that_the_data_decides_is_not_paid_by_delta():
    """A mechanism private on all tables but one rare one, where it prints a record.

    Over random data it "fails" with probability 1e-6, yet on that table its
    neighbors are told apart with certainty: delta is 1, not 1e-6 (E14).
    """
    outputs = {"rare": np.array([0.0, 1.0]), "neighbor": np.array([1.0, 0.0])}
    true_delta = float(np.maximum(outputs["rare"] - outputs["neighbor"], 0).sum())
    claimed = high_probability_composed(
        CorrDPGuarantee(epsilon=1.0), failure_probability=1e-6
    )
    assert true_delta == 1.0
    assert claimed.delta < true_delta


def test_guarantees_and_probabilities_are_checked():
    with pytest.raises(BudgetError, match=r"epsilon=0\.0"):
        CorrDPGuarantee(epsilon=0.0)
    with pytest.raises(CorrDPError, match=r"delta=1\.1"):
        CorrDPGuarantee(epsilon=1.0, delta=1.1)
    guarantee = CorrDPGuarantee(epsilon=1.0)
    with pytest.raises(CorrDPError, match=r"distance=0\.0"):
        guarantee.epsilon_at(0.0)
    with pytest.raises(BudgetError, match="failure_probability"):
        high_probability_composed(guarantee, failure_probability=1.0)


def test_whole_record_is_what_two_steps_give():
    guarantee = CorrDPGuarantee(epsilon=0.5, delta=1e-6)
    whole = whole_record(guarantee, distance=0.25)
    assert whole.epsilon == pytest.approx(0.5 + 2.0)
    assert whole.delta == pytest.approx(1e-6 * (1 + math.exp(0.5)))
    huge = whole_record(CorrDPGuarantee(epsilon=1e4, delta=1e-6), distance=1.0)
    assert huge.delta == 1.0


def sampled_log_ratio(absent, present, neighbor, rate):
    """Worst log-ratio of the mixtures, outcome by outcome."""
    first = (1 - rate) * absent + rate * present
    second = (1 - rate) * absent + rate * neighbor
    return float(np.max(np.log(first / second)))


def attaining_triple(class_epsilon, presence_epsilon, *, mass=1e-9):
    """Distributions on two outcomes that attain `amplified_epsilon` as mass -> 0."""
    between = min(class_epsilon, 2 * presence_epsilon)
    scales = [1.0, math.exp(presence_epsilon), math.exp(presence_epsilon - between)]
    unit = mass / max(scales)
    return [np.array([unit * scale, 1 - unit * scale]) for scale in scales]


@pytest.mark.parametrize(
    ("class_epsilon", "presence_epsilon"),
    [(10, 10), (10, 11), (1, 5), (3, 1), (0.1, 2)],
)
@pytest.mark.parametrize("rate", [0.01, 0.5, 1.0])
def test_amplified_epsilon_is_attained(class_epsilon, presence_epsilon, rate):
    triple = attaining_triple(class_epsilon, presence_epsilon)
    value = amplified_epsilon(
        class_epsilon=class_epsilon,
        presence_epsilon=presence_epsilon,
        sampling_rate=rate,
    )
    assert sampled_log_ratio(*triple, rate) == pytest.approx(value, rel=1e-6)


def test_without_a_bound_on_presence_sampling_does_not_help():
    setting = {"class_epsilon": 10.0, "sampling_rate": 0.01}
    assert amplified_epsilon(presence_epsilon=math.inf, **setting) == 10.0
    nearly = amplified_epsilon(presence_epsilon=60.0, **setting)
    assert nearly == pytest.approx(10.0, abs=1e-6)


def test_lemma_a5_never_holds_when_anything_is_sampled_away():
    for epsilon in (1e-3, 0.1, 1.0, 5.0):
        for rate in (0.001, 0.1, 0.9):
            claim = amplification_claim(
                epsilon=epsilon, distance=0.5, sampling_rate=rate
            )
            assert not claim.holds
    assert amplification_claim(epsilon=1.0, distance=0.5, sampling_rate=1.0).holds


def test_a_direct_hockey_stick_refutes_lemma_a5():
    """Gaussian at (1, 1e-6) on d = 0.1: the sampled curve at the claimed epsilon."""
    delta, rate, distance, claimed = 1e-6, 0.01, 0.1, 0.1
    mu = brentq(lambda m: exact_gaussian_delta(1.0 / distance, m) - delta, 0.1, 20)
    grid = np.linspace(-12, 20, 200_001)
    absent, present, neighbor = (norm.pdf(grid, mean) for mean in (0.0, mu, 0.0))
    excess = (1 - rate) * absent + rate * present
    excess = excess - math.exp(claimed) * ((1 - rate) * absent + rate * neighbor)
    true_delta = trapezoid(np.maximum(excess, 0), grid)
    assert true_delta > 1000 * rate * delta


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"class_epsilon": 0.0}, "class_epsilon=0.0"),
        ({"presence_epsilon": -1.0}, "presence_epsilon=-1.0"),
        ({"sampling_rate": 0.0}, "sampling_rate=0.0"),
        ({"sampling_rate": 1.5}, "sampling_rate=1.5"),
    ],
)
def test_arguments_of_amplification_are_checked(change, match):
    setting = {"class_epsilon": 1.0, "presence_epsilon": 1.0, "sampling_rate": 0.1}
    with pytest.raises(CorrDPError, match=match):
        amplified_epsilon(**{**setting, **change})
