"""Where insensitive features are many and rows few, corr pays: synthetic data."""

import numpy as np
import pytest

from corrdp.datasets._synthetic import (
    gaussian_column_leakage,
    paper_synthetic,
    synthetic_covariance,
)
from corrdp.estimators import LinearRegression, sweep
from corrdp.policy import PolicyEncoder


def excess_risk(result, table):
    """Return the excess squared error relative to the label's variance, by method."""
    encoder = PolicyEncoder(table.policy)
    codes = encoder.transform(table.frame)
    y = np.asarray(encoder.encode_label(table.frame["y"]))
    design = np.column_stack([codes, np.ones(len(y))])
    best = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    floor = np.mean(best**2) / np.var(y)
    return {
        (row["method"], row["epsilon"]): 1.0 - row["mean"] - floor
        for row in result.summary()
    }


def test_certified_corr_has_a_tenth_of_the_excess_risk_of_standard():
    table = paper_synthetic()
    result = sweep(
        table.frame,
        policy=table.policy,
        methods=["corr", "standard"],
        epsilons=[0.5, 1.0],
        delta=1e-4,
        seeds=4,
        model="linear",
        research=True,
    )
    risk = excess_risk(result, table)
    for epsilon, most in ((0.5, 0.05), (1.0, 0.01)):
        assert risk["corr", epsilon] <= most
        assert risk["corr", epsilon] <= risk["standard", epsilon] / 10


def test_the_certificate_of_the_synthetic_fit_verifies():
    table = paper_synthetic(n_rows=500, n_columns=12, n_sensitive=3)
    model = LinearRegression(table.policy, epsilon=1.0, delta=1e-4, random_state=0).fit(
        table.frame
    )
    assert model.certificate_.verify(model.policy_)
    assert model.certificate_.epsilon <= 1.0


def test_leakage_is_the_total_variation_of_the_conditionals():
    covariance = synthetic_covariance(6, 2)
    half_width = 3 * np.sqrt(2.0)
    exact = gaussian_column_leakage(covariance, 2, 4, half_width)
    rng = np.random.default_rng(0)
    across, variance = covariance[:2, 4], covariance[4, 4]
    shift = across * half_width / variance
    residual = covariance[:2, :2] - np.outer(across, across) / variance
    draws = rng.multivariate_normal(shift, residual, size=200_000)
    precision = np.linalg.inv(residual)
    far = np.einsum("ij,jk,ik->i", draws + shift, precision, draws + shift)
    near = np.einsum("ij,jk,ik->i", draws - shift, precision, draws - shift)
    estimate = np.mean(1 - np.minimum(1, np.exp((near - far) / 2)))
    assert exact == pytest.approx(estimate, abs=5e-3)
