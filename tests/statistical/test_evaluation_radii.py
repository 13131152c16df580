"""Radii of model metrics: the truth lies inside as often as stated."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import (
    accuracy_score,
    confusion_matrix,
    r2_score,
    roc_auc_score,
)

from corrdp.estimators import LinearRegression, LogisticRegression, plan_evaluation
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
)
from corrdp.queries._release import answers_of

N_RUNS, FAILURE, FALSE_ALARM = 2_000, 0.05, 1e-9
N_ROWS, EPSILON = 1_000, 4.0
LIMIT = int(stats.binom.isf(FALSE_ALARM, N_RUNS, FAILURE))
# How many times the 95th percentile of the largest error a radius may be, and its
# resolution: whole rows, or the coarser steps of what is a ratio of two noisy sums.
CLASSIFIER = {
    "accuracy": (1.1, 0.0),
    "log_loss": (1.1, 0.0),
    "confusion": (1.2, 1.0),
    "auc": (2.0, 0.0),
    "roc": (25.0, 0.0),
    "calibration": (6.0, 0.0),
}
REGRESSOR = {"mean_squared_error": (1.8, 0.0), "r_squared": (3.0, 0.0)}


def policy_of(domain):
    return Policy(
        (
            Feature("income", "sensitive", NumberDomain(0, 100)),
            Feature("age", "insensitive", NumberDomain(0, 100), leakage=0.2),
            Feature("sex", "public", CategoryDomain(("f", "m"))),
        ),
        Label("ill", domain, 1.0),
    )


def table_of(n_rows):
    generator = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "income": generator.uniform(0, 100, n_rows),
            "age": generator.uniform(0, 100, n_rows),
            "sex": generator.choice(["f", "m"], n_rows),
        }
    )
    score = (frame.age - 50) / 20 - (frame.income - 50) / 25
    frame["ill"] = score + generator.logistic(size=n_rows) > 0
    return frame


def fitted(kind, domain, frame):
    return kind(policy_of(domain), epsilon=50.0, delta=1e-4, random_state=0).fit(frame)


@pytest.fixture(scope="module")
def subjects():
    frame = table_of(N_ROWS)
    numbers = frame.assign(ill=0.05 * frame.age + 0.03 * frame.income)
    return {
        "classifier": (fitted(LogisticRegression, BooleanDomain(), frame), frame),
        "regressor": (fitted(LinearRegression, NumberDomain(0, 10), numbers), numbers),
    }


def truths(model, frame, metric):
    truth = frame.ill.to_numpy()
    if metric in REGRESSOR:
        guess = model.predict(frame).clip(0, 10)
        error = np.mean((guess - truth) ** 2) / 100
        return [error] if metric == "mean_squared_error" else [r2_score(truth, guess)]
    chances = model.predict_proba(frame)[:, 1]
    own = np.where(truth, chances, 1 - chances)
    bins = np.minimum((chances * 10).astype(int), 9)
    return {
        "accuracy": lambda: [accuracy_score(truth, model.predict(frame))],
        "log_loss": lambda: [np.mean(-np.log(np.maximum(own, 0.01)))],
        "confusion": lambda: confusion_matrix(truth, model.predict(frame)).ravel(),
        "auc": lambda: [roc_auc_score(truth, chances)],
        "roc": lambda: [
            np.mean(chances[truth == side] >= edge)
            for edge in np.linspace(0, 1, 11)[:-1]
            for side in (True, False)
        ],
        "calibration": lambda: [truth[bins == b].mean() for b in range(10)],
    }[metric]()


def released(model, frame, metric, times=1.0):
    """Return errors and radii of many evaluations, cell by cell."""
    plan, noisier = (
        plan_evaluation(
            model,
            metrics=[metric],
            by=None,
            n_rows=N_ROWS,
            budget=Budget(epsilon=epsilon, delta=0.0),
        )
        for epsilon in (EPSILON, EPSILON / times)
    )
    rows = plan.derived.extend(frame)
    exact = np.concatenate([m.evaluate(plan.view, rows) for m in plan.moments])
    noise = noisier.noise.draw_runs(N_RUNS, np.random.default_rng(7))
    reach = plan.noise.radius(FAILURE)
    truth = np.array(truths(model, frame, metric), dtype=float)
    errors, radii = [], []
    for row in noise:
        (answer,) = answers_of(plan, exact + row, reach, FAILURE)
        errors.append(np.abs(np.array(answer.values) - truth))
        radii.append(answer.radii)
    return np.array(errors), np.array(radii)


def misses(errors, radii):
    """Return in how many runs some cell is farther off than its radius."""
    return int(np.any(errors > radii + 1e-9, axis=1).sum())


@pytest.mark.statistical
@pytest.mark.parametrize("metric", [*CLASSIFIER, *REGRESSOR])
def test_metrics_are_within_their_radii_as_often_as_stated(subjects, metric):
    """A true miss rate of 5 percent is refused with probability 1e-9.

    Forty times the noise is caught; the radius is at most so many times what 95 percent
    of the errors need.
    """
    model, frame = subjects["regressor" if metric in REGRESSOR else "classifier"]
    errors, radii = released(model, frame, metric)
    assert misses(errors, radii) <= LIMIT
    needed = np.quantile(errors.max(axis=1), 1.0 - FAILURE)
    times, resolution = (CLASSIFIER | REGRESSOR)[metric]
    tightness = np.median(radii.max(axis=1)) / needed
    assert np.median(radii.max(axis=1)) <= times * needed + resolution, tightness
    assert misses(*released(model, frame, metric, times=40.0)) > LIMIT
