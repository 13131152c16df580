"""Radii of answers: the truth lies inside as often as stated, for every kind."""

import numpy as np
import pytest
from scipy import stats

from corrdp.policy import Budget, Policy
from corrdp.queries import answer_queries, consistent_counts, plan_queries
from corrdp.queries._release import answers_of
from queries_people import POLICY_TEXT, people_table

N_RUNS, FAILURE, FALSE_ALARM = 2_000, 0.05, 1e-9
N_ROWS = 400
LIMIT = int(stats.binom.isf(FALSE_ALARM, N_RUNS, FAILURE))
# Question, how many times the 95th percentile of the largest error its radius may be
# (interval arithmetic is honest, and not tight where it adds up many noises), and its
# resolution: whole rows, or declared bins between whose edges a quantile lies.
KINDS = {
    "count() where smoker": (1.1, 1.0),
    "sum(income)": (1.1, 0.0),
    "mean(income)": (1.1, 0.0),
    "count() by sector": (1.1, 1.0),
    "mean(income) by sector": (2.0, 0.0),
    "variance(income)": (2.0, 0.0),
    "variance(income) by sex": (3.0, 0.0),
    "histogram(income)": (1.2, 1.0),
    "median(income)": (4.0, 10.0),
    "median(income) by sex": (4.0, 10.0),
    "quantiles(age, 0.25, 0.75)": (4.0, 10.0),
    "covariance(age, income)": (2.0, 0.0),
    "correlation(age, income)": (4.0, 0.0),
    "sum(income) / sum(age)": (2.5, 0.0),
}


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    path = tmp_path_factory.mktemp("people") / "policy.toml"
    path.write_text(POLICY_TEXT, encoding="utf-8")
    return Policy.from_file(path)


def released(policy, ask, times=1.0, kind="laplace"):
    """Return errors and radii of many releases of one question, cell by cell."""
    table = people_table(N_ROWS)
    delta = 1e-6 if kind == "gaussian" else 0.0
    plan, noisier = (
        plan_queries(
            policy,
            [ask],
            budget=Budget(epsilon=epsilon, delta=delta),
            n_rows=N_ROWS,
            kind=kind,
            quantiles="counts",
        )
        for epsilon in (2.0, 2.0 / times)
    )
    exact = np.concatenate([m.evaluate(policy, table) for m in plan.moments])
    noise = noisier.noise.draw_runs(N_RUNS, np.random.default_rng(7))
    reach = plan.noise.radius(FAILURE)
    truth = np.array(truths(ask, table))
    errors, radii = [], []
    for row in noise:
        (answer,) = answers_of(plan, exact + row, reach, FAILURE)
        errors.append(np.abs(np.array(answer.values) - truth))
        radii.append(answer.radii)
    return np.array(errors), np.array(radii)


def truths(ask, table):
    by_sex, by_sector = table.groupby("sex").income, table.groupby("sector").income
    sectors = ["industry", "trade", "office"]
    counts = np.histogram(table.income, 10, (0, 100))[0]
    lower = {"interpolation": "lower"}
    return {
        "count() where smoker": [table.smoker.sum()],
        "sum(income)": [table.income.sum()],
        "mean(income)": [table.income.mean()],
        "count() by sector": by_sector.size()[sectors],
        "mean(income) by sector": by_sector.mean()[sectors],
        "variance(income)": [table.income.var(ddof=0)],
        "variance(income) by sex": by_sex.var(ddof=0),
        "histogram(income)": counts,
        "median(income)": [table.income.quantile(0.5, **lower)],
        "median(income) by sex": by_sex.quantile(0.5, **lower),
        "quantiles(age, 0.25, 0.75)": table.age.quantile([0.25, 0.75], **lower),
        "covariance(age, income)": [table.age.cov(table.income, ddof=0)],
        "correlation(age, income)": [table.age.corr(table.income)],
        "sum(income) / sum(age)": [table.income.sum() / table.age.sum()],
    }[ask]


def misses(errors, radii):
    """Return in how many runs some cell is farther off than its radius."""
    return int(np.any(errors > radii + 1e-9, axis=1).sum())


@pytest.mark.statistical
@pytest.mark.parametrize("ask", KINDS)
def test_answers_are_within_their_radii_as_often_as_stated(policy, ask):
    """A true miss rate of 5 percent is refused with probability 1e-9.

    Forty times the noise is caught; the radius is at most so many times what 95 percent
    of the errors need.
    """
    errors, radii = released(policy, ask)
    assert misses(errors, radii) <= LIMIT
    needed = np.quantile(errors.max(axis=1), 1.0 - FAILURE)
    times, resolution = KINDS[ask]
    assert np.median(radii.max(axis=1)) <= times * needed + resolution
    assert misses(*released(policy, ask, times=40.0)) > LIMIT


@pytest.mark.statistical
def test_gaussian_radii_hold_as_well(policy):
    errors, radii = released(policy, "mean(income) by sector", kind="gaussian")
    assert misses(errors, radii) <= LIMIT


@pytest.mark.statistical
def test_consistent_counts_keep_their_radii(policy):
    """The same limit; and they are closer to the truth than what was released."""
    table = people_table(N_ROWS)
    exact = np.array(truths("count() by sector", table), dtype=float)
    failures, before, after = 0, 0.0, 0.0
    for seed in range(200):
        result = answer_queries(
            table,
            policy,
            ["count() by sector", "count() by sector, sex"],
            epsilon=0.05,
            random_state=seed,
        )
        fixed = consistent_counts(result).answers[0]
        error = np.abs(np.array(fixed.values) - exact)
        failures += bool(np.any(error > fixed.radii))
        before += float(np.sum((np.array(result.answers[0].values) - exact) ** 2))
        after += float(np.sum(error**2))
    assert failures <= stats.binom.isf(FALSE_ALARM, 200, FAILURE)
    assert after < before
