"""Orders that common sense demands, measured: excess risk on one table, ten fits each.

More epsilon is not worse, a weaker promise is not worse, less leakage is not worse.
Seeds are fixed, so nothing here is left to luck; steps between the cells are wide
enough (a factor of three in noise, or another promise) that the means of ten fits are
apart by several standard errors, which is asserted as well: a rule that ignored
epsilon, the promise or leakage would fail.
"""

from functools import cache
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from corrdp.estimators import LogisticRegression
from corrdp.policy import BooleanDomain, Feature, Label, NumberDomain, Policy
from corrdp.training import minimize_risk

N_ROWS, N_FITS = 1500, 10
NAMES = ["s", "a", "b", "c", "d"]


@cache
def table():
    rng = np.random.default_rng(12)
    rows = rng.beta(3, 3, (N_ROWS, len(NAMES)))
    score = 6 * (rows - 0.5) @ np.array([1.0, -1.0, 0.8, -0.6, 0.4])
    frame = pd.DataFrame(rows, columns=NAMES)
    return frame.assign(y=rng.random(N_ROWS) < 1 / (1 + np.exp(-score)))


def policy_of(leakage):
    features = [Feature("s", "sensitive", NumberDomain(0, 1))]
    features += [
        Feature(name, "insensitive", NumberDomain(0, 1), leakage=leakage)
        for name in NAMES[1:]
    ]
    return Policy(tuple(features), Label("y", BooleanDomain(), score=0.0))


@cache
def excess(method="corr", epsilon=0.5, leakage=0.4):
    """Return the excess risk of every fit."""
    policy = policy_of(leakage)
    public = LogisticRegression(policy, research=True)
    codes, labels = public.encode(table())
    loss = public.loss_of(policy)

    def risk(coef, intercept):
        return float(loss.value(codes @ coef + intercept, labels).mean())

    best = risk(*minimize_risk(codes, labels, loss))
    found = []
    for seed in range(N_FITS):
        model = LogisticRegression(
            policy,
            epsilon=epsilon,
            delta=1e-6,
            method=method,
            random_state=seed,
            research=True,
        ).fit(table())
        found.append(risk(np.ravel(model.coef_), float(np.ravel(model.intercept_)[0])))
    return np.array(found) - best


CHAINS = {
    "epsilon": [{"epsilon": e} for e in (3.0, 1.0, 0.3)],
    "promise": [{"method": m} for m in ("semi", "corr", "standard")],
    "leakage": [{"leakage": d} for d in (0.05, 1.0)],
}


@pytest.mark.parametrize("chain", CHAINS)
def test_better_terms_do_not_give_worse_models(chain):
    cells = [excess(**terms) for terms in CHAINS[chain]]
    for better, worse in pairwise(cells):
        error = np.std(better - worse, ddof=1) / np.sqrt(N_FITS)
        assert better.mean() <= worse.mean() + 2 * error
    first, last = cells[0], cells[-1]
    error = np.hypot(first.std(ddof=1), last.std(ddof=1)) / np.sqrt(N_FITS)
    assert last.mean() - first.mean() > 2 * error  # terms do matter
