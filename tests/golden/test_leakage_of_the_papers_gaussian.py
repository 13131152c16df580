"""The Gaussian of the paper's experiments, by three independent routes."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from corrdp.leakage import estimate_leakage
from corrdp.leakage.estimators import gaussian_leakage
from corrdp.policy import Feature, NumberDomain, Policy

COLUMNS, SENSITIVE, DELTA = 100, 10, 1e-4
HALF_WIDTH = 2 * math.sqrt(math.log(2 * SENSITIVE / DELTA))


def papers_covariance():
    covariance = np.full((COLUMNS, COLUMNS), 0.5)
    covariance[:SENSITIVE, SENSITIVE:] = covariance[SENSITIVE:, :SENSITIVE] = 0.1
    np.fill_diagonal(covariance, [1.0] * SENSITIVE + [2.0] * (COLUMNS - SENSITIVE))
    return covariance


def by_symmetry():
    """docs/theory/leakage_metrics.md: the ones vector is an eigenvector."""
    eigenvalue = 0.5 + SENSITIVE * (0.5 - 0.1**2 / 2)
    shift = 0.1 / 2 * 2 * HALF_WIDTH
    return 2 * norm.cdf(shift * math.sqrt(SENSITIVE / eigenvalue) / 2) - 1


def by_integral():
    """The mean of the sensitive features is sufficient: one integral on a line."""
    variance = 1 / SENSITIVE + 0.5 * (1 - 1 / SENSITIVE) - 0.1**2 / 2
    shift = 0.1 * HALF_WIDTH
    scale = math.sqrt(variance)
    return 0.5 * sum(
        quad(
            lambda x: abs(norm.pdf(x, 0, scale) - norm.pdf(x, shift, scale)),
            low,
            high,
            epsabs=1e-12,
        )[0]
        for low, high in ((-9, shift / 2), (shift / 2, 9))
    )


def test_every_insensitive_feature_of_the_papers_gaussian():
    leakage = gaussian_leakage(
        papers_covariance(),
        sensitive=SENSITIVE,
        half_widths=np.full(COLUMNS - SENSITIVE, HALF_WIDTH),
    )
    assert leakage.shape == (90,)
    assert leakage == pytest.approx(by_symmetry(), abs=1e-12)
    assert leakage == pytest.approx(by_integral(), abs=1e-6)
    assert leakage[0] == pytest.approx(0.363964, abs=1e-6)


def test_the_estimator_finds_it_in_draws():
    columns = SENSITIVE + 1  # one insensitive feature; the others do not matter
    covariance = papers_covariance()[:columns, :columns]
    generator = np.random.default_rng(17)
    rows = generator.multivariate_normal(np.zeros(columns), covariance, 20_000)
    names = [f"s{i}" for i in range(SENSITIVE)] + ["u"]
    policy = Policy(
        tuple(
            Feature(name, "sensitive", NumberDomain(-8, 8))
            if name != "u"
            else Feature(name, "insensitive", NumberDomain(-HALF_WIDTH, HALF_WIDTH))
            for name in names
        )
    )
    leakage = estimate_leakage(
        pd.DataFrame(rows, columns=names), policy, source="public"
    )
    found = leakage.features["u"]
    # T has mean lambda + p and deviation below 2 sqrt(lambda): a relative error of .1
    assert found.estimate == pytest.approx(by_symmetry(), abs=0.04)
    assert found.estimate < found.upper < by_symmetry() + 0.12
    assert found.upper > by_symmetry()
