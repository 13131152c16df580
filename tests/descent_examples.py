"""A small table and its training plan, for the tests of descent."""

from functools import partial

import numpy as np
import pandas as pd

from corrdp.policy import (
    Budget,
    CategoryDomain,
    ColumnRole,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    neighbor_classes,
)
from corrdp.training import (
    SQUARED_LOSS,
    LogisticLoss,
    PlanInputs,
    default_plan,
    plan_spending,
)


def example_policy():
    return Policy(
        (
            Feature("a", ColumnRole.SENSITIVE, NumberDomain(0, 1)),
            Feature("b", ColumnRole.INSENSITIVE, CategoryDomain(tuple("pqr")), 0.3),
        ),
        Label("y", CategoryDomain(("no", "yes")), score=0.0),
    )


def example_columns(n_rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    a = rng.random(n_rows)
    b = rng.choice(list("pqr"), n_rows)
    chance = 1 / (1 + np.exp(-(4 * a - 2 + 2 * (b == "p") - 1)))
    return a, b, rng.random(n_rows) < chance


def example_rows(n_rows=3000, seed=0):
    a, b, labels = example_columns(n_rows, seed)
    codes = PolicyEncoder(example_policy()).transform(
        np.array(list(zip(a, b, strict=True)), dtype=object)
    )
    return codes, labels.astype(float)


def example_frame(n_rows=3000, seed=0):
    a, b, labels = example_columns(n_rows, seed)
    return pd.DataFrame({"a": a, "b": b, "y": np.where(labels, "yes", "no")})


one_walk = partial(default_plan, in_two_walks=False)


def example_plan(n_rows=3000, *, logistic=True, epsilon=1.0, rule=one_walk):
    policy = example_policy()
    spending = plan_spending(
        policy,
        neighbor_classes(policy),
        budget=Budget(epsilon=epsilon, delta=1e-6),
        adapts_residual_bound=not logistic,
    )
    blocks = PolicyEncoder(policy).blocks_
    loss = LogisticLoss() if logistic else SQUARED_LOSS
    return rule(PlanInputs(blocks, spending, n_rows, loss))


def accuracy(model, codes, y):
    return np.mean((codes @ model.coef + model.intercept > 0) == (y > 0.5))
