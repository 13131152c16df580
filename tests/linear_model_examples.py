"""A small table under a small policy, for the tests of linear models."""

import numpy as np
import pandas as pd

from corrdp.estimators import LogisticRegression
from corrdp.policy import (
    CategoryDomain,
    ColumnRole,
    Feature,
    Label,
    NumberDomain,
    Policy,
)

N_ROWS = 4000


def example_policy(label_score=0.0, **options):
    return Policy(
        (
            Feature("age", ColumnRole.SENSITIVE, NumberDomain(0, 100)),
            Feature("sex", ColumnRole.INSENSITIVE, CategoryDomain(("f", "m")), 0.2),
            Feature("city", ColumnRole.INSENSITIVE, CategoryDomain(tuple("xyz")), 0.5),
        ),
        Label("rich", CategoryDomain(("no", "yes")), score=label_score),
        **options,
    )


def example_frame(n_rows=N_ROWS, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(0, 100, n_rows)
    sex = rng.choice(["f", "m"], n_rows)
    city = rng.choice(list("xyz"), n_rows)
    score = (age - 50) / 10 + 2 * (city == "x")
    rich = np.where(score + rng.logistic(size=n_rows) > 0, "yes", "no")
    return pd.DataFrame({"age": age, "sex": sex, "city": city, "rich": rich})


def regression_policy():
    policy = example_policy()
    return Policy(policy.features, Label("rich", NumberDomain(0, 10), score=0.0))


def regression_frame():
    frame = example_frame()
    return frame.assign(rich=frame.age / 20 + 2 * (frame.city == "x"))


def model_of(policy=None, **options):
    chosen = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0} | options
    return LogisticRegression(policy or example_policy(), **chosen)
