"""Huber regression: the gradient of clipped squares with a bound that is declared."""

import numpy as np
import pytest
from scipy.optimize import minimize

from corrdp.estimators import LinearRegression
from corrdp.exceptions import CorrDPError
from corrdp.policy import PolicyEncoder
from corrdp.training import HuberLoss, SquaredLoss
from linear_model_examples import regression_frame, regression_policy


def model_of(**options):
    chosen = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "random_state": 0,
        "loss": "huber",
        "huber_threshold": 1.0,
    }
    return LinearRegression(regression_policy(), **(chosen | options))


def frame_with_outliers():
    """One label in ten at the upper bound, whatever the features."""
    frame = regression_frame()
    rng = np.random.default_rng(5)
    return frame.assign(rich=frame.rich.where(rng.random(len(frame)) > 0.1, 10.0))


def test_the_threshold_is_in_units_of_the_label_and_costs_nothing():
    frame = regression_frame()
    model = model_of().fit(frame)
    assert model.plan_.loss == HuberLoss(0.1)  # labels from 0 to 10
    names = [component.name for component in model.certificate_.components]
    assert names == ["column means", "gradients"]
    assert model.certificate_.epsilon <= 1.0
    assert model.score(frame, frame.rich) > 0.9
    squared = model_of(loss="squared", huber_threshold=None).fit(frame)
    assert isinstance(squared.plan_.loss, SquaredLoss)
    assert "residual fractions" in [c.name for c in squared.certificate_.components]


def test_outliers_move_huber_less_than_least_squares():
    clean, dirty = regression_frame(), frame_with_outliers()
    huber = model_of(huber_threshold=0.3).fit(dirty).predict(clean)
    plain = LinearRegression(
        regression_policy(), method="nonprivate", research=True
    ).fit(dirty)
    error = np.abs(huber - clean.rich).mean()
    assert error < 0.5 * np.abs(plain.predict(clean) - clean.rich).mean()


def test_without_privacy_it_minimizes_the_huber_risk():
    frame = frame_with_outliers()
    model = model_of(method="nonprivate", research=True).fit(frame)
    codes = PolicyEncoder(regression_policy()).transform(frame)
    design = np.column_stack([codes, np.ones(len(codes))])
    y = frame.rich.to_numpy()

    def risk(coef):
        size = np.abs(design @ coef - y)
        return np.where(size <= 1.0, size**2 / 2, size - 0.5).mean()

    start = np.append(model.coef_, model.intercept_)
    np.testing.assert_allclose(design @ start, model.predict(frame), atol=1e-9)
    best = minimize(risk, start, method="BFGS").fun
    assert risk(start) <= best + 1e-6


def test_a_threshold_survives_saving(tmp_path):
    model = model_of().fit(regression_frame())
    model.save(tmp_path / "model")
    loaded = LinearRegression.load(tmp_path / "model")
    assert (loaded.loss, loaded.huber_threshold) == ("huber", 1.0)
    np.testing.assert_array_equal(loaded.coef_, model.coef_)


@pytest.mark.parametrize(
    "wrong",
    [
        {"huber_threshold": None},
        {"loss": "squared"},
        {"loss": "absolute"},
        {"huber_threshold": 0.0},
        {"huber_threshold": -1.0},
        {"huber_threshold": np.inf},
    ],
)
def test_a_threshold_is_a_positive_number_and_belongs_to_huber(wrong):
    with pytest.raises(CorrDPError, match=r"huber_threshold|loss must be"):
        model_of(**wrong).fit(regression_frame())


def test_the_papers_noise_can_be_had_for_huber():
    model = model_of(calibration="theorem", n_steps=50).fit(regression_frame())
    assert model.certificate_.epsilon > 1.0
