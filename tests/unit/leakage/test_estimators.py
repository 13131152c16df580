"""Every estimator on models whose leakage is known."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.leakage import estimate_leakage, metric_named
from corrdp.leakage.estimators import (
    ESTIMATORS,
    EstimationContext,
    GaussianPosterior,
    Histogram,
    MonteCarlo,
    MultinomialLogistic,
    PlugIn,
    ProductKernel,
    VariationalCritic,
    choose_estimator,
    estimator_named,
    gaussian_leakage,
    histogram_bins,
    read_sample,
)
from corrdp.policy import CategoryDomain, Feature, NumberDomain, Policy, Slot

ROWS = 20_000


def context(metric="total_variation", failure_probability=1e-3):
    return EstimationContext(
        metric=metric_named(metric),
        failure_probability=failure_probability,
        generator=np.random.default_rng(11),
    )


def number(name, role, *, lower=-6.0, upper=6.0, bins=None):
    return Feature(name, role, NumberDomain(lower, upper, bins=bins))


def group(role="insensitive"):
    return Feature("group", role, CategoryDomain(("a", "b")))


def shifted(n_rows=ROWS, shift=1.0, n_sensitive=1):
    """S ~ N(shift * [group = b], I): total variation 2 Phi(|shift| / 2) - 1."""
    generator = np.random.default_rng(7)
    is_b = generator.random(n_rows) < 0.4
    noise = generator.normal(size=(n_rows, n_sensitive))
    frame = pd.DataFrame({"group": np.where(is_b, "b", "a")})
    for index in range(n_sensitive):
        frame[f"s{index}"] = noise[:, index] + shift / math.sqrt(n_sensitive) * is_b
    return frame


def linear(n_rows=ROWS, slope=0.5):
    """S = slope u + N(0, 1), u uniform on [-1, 1]."""
    generator = np.random.default_rng(8)
    u = generator.uniform(-1, 1, n_rows)
    return pd.DataFrame({"u": u, "s": slope * u + generator.normal(size=n_rows)})


def truth(distance):
    return 2 * norm.cdf(distance / 2) - 1


def estimated(estimator, frame, policy, changed, *, discrete_numbers=True, **options):
    sample = read_sample(frame, policy, changed, discrete_numbers=discrete_numbers)
    return estimator.estimate(sample, context(**options))


def test_histogram_approaches_the_truth_and_covers_it():
    frame = shifted()
    policy = Policy((number("s0", "sensitive"), group()))
    found = estimated(Histogram(), frame, policy, ["group"])
    assert found.estimate == pytest.approx(truth(1.0), abs=0.03)
    # the histogram of the truth loses at most its own resolution
    assert found.upper > truth(1.0)
    assert "28 bins" in found.method


def test_declared_bins_are_plugged_in_and_agree_with_the_histogram():
    frame = shifted()
    policy = Policy((number("s0", "sensitive", bins=28), group()))
    plugged = estimated(PlugIn(), frame, policy, ["group"])
    free = Policy((number("s0", "sensitive"), group()))
    binned = estimated(Histogram(bins=28), frame, free, ["group"])
    assert plugged.estimate == pytest.approx(binned.estimate, abs=1e-12)


@pytest.mark.parametrize("n_rows", [0, 1, 2])
def test_a_histogram_of_hardly_any_rows_proves_nothing(n_rows):
    policy = Policy((number("s0", "sensitive"), group()))
    found = estimate_leakage(shifted(n_rows), policy, source="public")
    assert found.distances() == {"group": 1.0}


def test_one_bin_is_no_histogram():
    policy = Policy((number("s0", "sensitive"), group()))
    with pytest.raises(CorrDPError, match="at least 2, got bins=1"):
        estimated(Histogram(bins=1), shifted(50), policy, ["group"])
    # Nor is a declared one, beside another number that is cut here.
    told = number("s0", "sensitive", bins=1), number("s1", "sensitive")
    frame = shifted(50, n_sensitive=2)
    for estimator in (None, "histogram"):
        with pytest.raises(PolicyError, match=r"One bin tells no values apart.* s0\."):
            estimate_leakage(
                frame, Policy((*told, group())), source="public", estimator=estimator
            )


def test_bins_that_nobody_declared_are_an_assumption():
    frame = shifted(2000)
    free = Policy((number("s0", "sensitive"), group()))
    told = estimate_leakage(frame, free, source="public").assumptions
    assert any("s0 than of which of 13 equal bins" in text for text in told)
    declared = Policy((number("s0", "sensitive", bins=13), group()))
    told = estimate_leakage(frame, declared, source="public").assumptions
    assert not any("equal bins" in text for text in told)


@pytest.mark.parametrize("n_rows", [8, 1000, 27_000])
def test_histogram_resolution_follows_the_paper(n_rows):
    assert histogram_bins(n_rows, 1) == pytest.approx(n_rows ** (1 / 3), abs=1)
    assert histogram_bins(n_rows, 4) == pytest.approx(n_rows ** (1 / 6), abs=1)


def test_gaussian_posterior_is_exact_in_the_limit_and_covers():
    frame = linear()
    policy = Policy(
        (number("s", "sensitive"), number("u", "insensitive", lower=-1, upper=1))
    )
    found = estimated(GaussianPosterior(), frame, policy, ["u"])
    assert found.estimate == pytest.approx(truth(1.0), abs=0.02)
    assert truth(1.0) < found.upper < truth(1.0) + 0.06
    hellinger = estimated(GaussianPosterior(), frame, policy, ["u"], metric="hellinger")
    assert hellinger.estimate == pytest.approx(
        math.sqrt(1 - math.exp(-1 / 8)), abs=0.02
    )


@pytest.mark.parametrize("scatter", [1e-4, 1e-7, 1e-10])
def test_numbers_that_are_all_but_a_function_of_one_another_tell_everything(scatter):
    frame = linear(50)
    frame["s"] = frame["u"] + scatter * (frame["s"] - 0.5 * frame["u"])
    policy = Policy((number("s", "sensitive"), number("u", "insensitive")))
    found = estimate_leakage(frame, policy, source="public", estimator="gaussian")
    assert found.distances()["u"] == pytest.approx(1.0, abs=1e-9)


def test_gaussian_posterior_of_a_block_takes_the_farthest_corners():
    generator = np.random.default_rng(9)
    u = generator.uniform(-1, 1, size=(ROWS, 2))
    s = 0.5 * u[:, 0] - 0.25 * u[:, 1] + generator.normal(size=ROWS)
    frame = pd.DataFrame({"s": s, "u": u[:, 0], "v": u[:, 1]})
    policy = Policy(
        (
            number("s", "sensitive"),
            number("u", "insensitive", lower=-1, upper=1),
            number("v", "insensitive", lower=-1, upper=1),
        ),
        relation="all_insensitive",
    )
    found = estimated(GaussianPosterior(), frame, policy, ["u", "v"])
    assert found.estimate == pytest.approx(truth(1.5), abs=0.02)
    assert found.upper is None


def test_known_gaussians_agree_between_relations_for_one_feature():
    covariance = np.array([[1.0, 0.3, 0.2], [0.3, 1.0, 0.4], [0.2, 0.4, 2.0]])
    one = gaussian_leakage(covariance, sensitive=2, half_widths=np.array([1.5]))
    block = gaussian_leakage(
        covariance, sensitive=2, half_widths=np.array([1.5]), relation="all_insensitive"
    )
    assert one == pytest.approx(block, abs=1e-12)


def test_logistic_model_recovers_a_logistic_truth():
    generator = np.random.default_rng(10)
    u = generator.uniform(-1, 1, ROWS)
    chance = 1 / (1 + np.exp(-2 * u))
    s = np.where(generator.random(ROWS) < chance, "a", "b")
    frame = pd.DataFrame({"group": s, "u": u})
    policy = Policy((group("sensitive"), number("u", "insensitive", lower=-1, upper=1)))
    found = estimated(MultinomialLogistic(), frame, policy, ["u"])
    assert found.estimate == pytest.approx(math.tanh(1.0), abs=0.02)
    assert found.upper is None
    assert "u = -1" in found.reason
    assert "u = 1" in found.reason


def test_logistic_model_of_categories_is_the_plug_in():
    generator = np.random.default_rng(12)
    u = generator.integers(0, 2, ROWS)
    s = np.where(generator.random(ROWS) < 0.3 + 0.2 * u, "a", "b")
    frame = pd.DataFrame({"group": s, "c": np.where(u, "y", "x")})
    changed = Feature("c", "insensitive", CategoryDomain(("x", "y")))
    policy = Policy((group("sensitive"), changed))
    logistic = estimated(MultinomialLogistic(), frame, policy, ["c"])
    counted = estimated(PlugIn(), frame, policy, ["c"])
    assert logistic.estimate == pytest.approx(counted.estimate, abs=2e-3)


def test_kernel_handles_mixed_types():
    generator = np.random.default_rng(13)
    is_b = generator.random(ROWS) < 0.5
    s0 = generator.normal(size=ROWS) + 1.0 * is_b
    code = np.where(generator.random(ROWS) < 0.5 + 0.2 * is_b, "p", "q")
    frame = pd.DataFrame({"group": np.where(is_b, "b", "a"), "s0": s0, "c": code})
    kind = Feature("c", "sensitive", CategoryDomain(("p", "q")))
    policy = Policy((number("s0", "sensitive"), kind, group()))
    found = estimated(ProductKernel(), frame, policy, ["group"])
    grid = np.linspace(-8, 9, 20_001)
    gap = sum(
        np.abs(p * norm.pdf(grid) - q * norm.pdf(grid, 1.0))
        for p, q in ((0.5, 0.7), (0.5, 0.3))
    )
    exact = 0.5 * gap.sum() * (grid[1] - grid[0])
    assert found.estimate == pytest.approx(exact, abs=0.05)
    assert found.upper is None


def test_monte_carlo_of_mixtures_with_unequal_spread():
    generator = np.random.default_rng(14)
    is_b = generator.random(ROWS) < 0.5
    left = generator.random(ROWS) < 0.5
    mixture = np.where(left, -2.0, 2.0) + 0.5 * generator.normal(size=ROWS)
    s0 = np.where(is_b, mixture, generator.normal(size=ROWS))
    frame = pd.DataFrame({"group": np.where(is_b, "b", "a"), "s0": s0})
    policy = Policy((number("s0", "sensitive"), group()))
    found = estimated(MonteCarlo(), frame, policy, ["group"])
    grid = np.linspace(-10, 10, 40_001)
    second = 0.5 * norm.pdf(grid, -2, 0.5) + 0.5 * norm.pdf(grid, 2, 0.5)
    exact = 0.5 * np.abs(norm.pdf(grid) - second).sum() * (grid[1] - grid[0])
    assert found.estimate == pytest.approx(exact, abs=0.02)


def test_a_critic_bounds_from_below_and_says_so():
    frame = shifted(n_sensitive=3)
    policy = Policy((*(number(f"s{i}", "sensitive") for i in range(3)), group()))
    found = estimated(VariationalCritic(), frame, policy, ["group"])
    assert found.lower <= truth(1.0)
    assert found.lower < found.estimate
    assert found.estimate == pytest.approx(truth(1.0), abs=0.05)
    assert found.upper is None
    assert "lower bound" in found.method


def test_a_critic_of_a_number_compares_quarters_and_stays_below():
    frame = linear(slope=2.0)
    policy = Policy(
        (number("s", "sensitive"), number("u", "insensitive", lower=-1, upper=1))
    )
    found = estimated(VariationalCritic(), frame, policy, ["u"])
    assert 0.3 < found.lower <= truth(4.0)


@pytest.mark.parametrize(
    ("features", "changed", "name"),
    [
        ([number("s", "sensitive", bins=4), group()], "group", "plug_in"),
        ([number("s", "sensitive"), group()], "group", "histogram"),
        ([number("s", "sensitive"), number("u", "insensitive")], "u", "gaussian"),
        ([group("sensitive"), number("u", "insensitive")], "u", "logistic"),
        (
            [number("s", "sensitive"), group("sensitive"), number("u", "insensitive")],
            "u",
            "kernel",
        ),
    ],
)
def test_estimators_are_chosen_by_column_types_with_a_reason(features, changed, name):
    chosen, reason = choose_estimator(Policy(tuple(features)), [changed])
    assert chosen.name == name
    assert reason


def test_no_estimator_fits_many_mixed_numbers():
    numbers = [number(f"s{i}", "sensitive") for i in range(5)]
    features = (*numbers, group("sensitive"), number("u", "insensitive"))
    with pytest.raises(PolicyError, match="Declare bins for s0, s1"):
        choose_estimator(Policy(features), ["u"])


def test_estimators_by_name_have_that_name():
    for name in ESTIMATORS:
        assert estimator_named(name).name == name
    with pytest.raises(CorrDPError, match="estimator='magic'"):
        estimator_named("magic")


def test_estimators_refuse_columns_they_cannot_read():
    frame = shifted(200)
    policy = Policy((number("s0", "sensitive"), group()))
    for estimator in (GaussianPosterior(), PlugIn(), MultinomialLogistic()):
        with pytest.raises(PolicyError, match=estimator.name):
            estimated(estimator, frame, policy, ["group"])
    with pytest.raises(PolicyError, match="total variation only"):
        estimated(ProductKernel(), frame, policy, ["group"], metric="hellinger")


def test_constant_numbers_and_too_few_rows_are_refused_by_the_gaussian():
    policy = Policy((number("s", "sensitive"), number("u", "insensitive")))
    constant = pd.DataFrame({"s": np.arange(50.0) % 3, "u": np.ones(50)})
    with pytest.raises(CorrDPError, match="constant"):
        estimated(GaussianPosterior(), constant, policy, ["u"])
    swapped = constant.rename(columns={"s": "u", "u": "s"})
    with pytest.raises(CorrDPError, match="constant"):
        estimated(GaussianPosterior(), swapped, policy, ["u"])
    with pytest.raises(CorrDPError, match="at least 3 rows"):
        estimated(GaussianPosterior(), constant[:2], policy, ["u"])


def test_missing_slots_of_numbers_need_bins():
    slot = Feature("s", "sensitive", NumberDomain(0, 1, missing=Slot()))
    frame = pd.DataFrame({"s": [0.1, None], "group": ["a", "b"]})
    with pytest.raises(PolicyError, match=r"features\.s has a slot"):
        estimated(Histogram(), frame, Policy((slot, group())), ["group"])


@pytest.mark.parametrize("estimator", [MonteCarlo(), VariationalCritic()])
def test_values_with_too_few_rows_are_refused(estimator):
    frame = shifted(30)
    policy = Policy((number("s0", "sensitive"), group()))
    with pytest.raises(PolicyError, match="rows in at least two"):
        estimated(estimator, frame, policy, ["group"])


def test_more_than_the_stated_limits_is_refused():
    generator = np.random.default_rng(0)
    many = Feature("c", "sensitive", CategoryDomain(tuple(map(str, range(600)))))
    frame = pd.DataFrame({"c": np.arange(1200) % 600, "u": generator.random(1200)})
    policy = Policy((many, number("u", "insensitive", lower=0, upper=1)))
    with pytest.raises(PolicyError, match="more than 500"):
        estimated(MultinomialLogistic(), frame, policy, ["u"])
    names = [f"s{i}" for i in range(5)]
    numbers = pd.DataFrame(generator.random((50, 5)), columns=names)
    five = tuple(number(name, "sensitive") for name in names)
    frame = numbers.assign(group="a")
    with pytest.raises(PolicyError, match="5 sensitive numbers"):
        estimated(ProductKernel(), frame, Policy((*five, group())), ["group"])
    with pytest.raises(PolicyError, match="joint cells"):
        estimated(Histogram(bins=60), frame, Policy((*five, group())), ["group"])
    covariance = np.eye(20)
    with pytest.raises(PolicyError, match="2\\^19 corners"):
        gaussian_leakage(
            covariance,
            sensitive=1,
            half_widths=np.ones(19),
            relation="all_insensitive",
        )


def test_one_sensitive_value_tells_nothing_to_the_logistic_model():
    frame = pd.DataFrame({"group": ["a"] * 20, "u": np.linspace(0, 1, 20)})
    policy = Policy((group("sensitive"), number("u", "insensitive")))
    assert estimated(MultinomialLogistic(), frame, policy, ["u"]).estimate == 0.0


def test_more_joint_cells_than_memory_holds_are_refused():
    names = [f"s{i}" for i in range(12)]
    frame = pd.DataFrame({name: ["a", "b"] for name in names} | {"u": [0.0, 1.0]})
    levels = CategoryDomain(tuple("abcdefghij"))
    features = [Feature(name, "sensitive", levels) for name in names]
    policy = Policy((*features, number("u", "insensitive")))
    with pytest.raises(PolicyError, match=r"joint cells, the limit is"):
        estimated(MultinomialLogistic(), frame, policy, ["u"])


def test_small_samples_are_not_thinned_by_the_kernel():
    frame = shifted(300)
    policy = Policy((number("s0", "sensitive"), group()))
    assert "300 rows" in estimated(ProductKernel(), frame, policy, ["group"]).method


def test_an_estimator_object_is_taken_as_it_is():
    chosen = Histogram(bins=7)
    assert estimator_named(chosen) is chosen


def test_a_policy_without_sensitive_features_has_nothing_to_leak():
    frame = pd.DataFrame({"group": ["a", "b"]})
    found = estimated(PlugIn(), frame, Policy((group(),)), ["group"])
    assert found.upper == 0.0
