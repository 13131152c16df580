"""Plans for few rows and much noise, with labels of which one is rare."""

import numpy as np

from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    neighbor_classes,
)
from corrdp.training import (
    SQUARED_LOSS,
    Descent,
    LogisticLoss,
    MultinomialLoss,
    PlanInputs,
    default_plan,
    plan_spending,
    prepare_rows,
)

LABELS = {
    "two": (BooleanDomain(), LogisticLoss()),
    "three": (CategoryDomain(tuple("abc")), MultinomialLoss(3)),
    "number": (NumberDomain(0, 1), SQUARED_LOSS),
}
N_ROWS = 300


def plan_of(label="two", *, score=0.0, epsilon=0.2, rule=default_plan):
    features = (
        Feature("s", "sensitive", NumberDomain(0, 1)),
        *(
            Feature(f"u{i}", "insensitive", CategoryDomain(tuple("xyz")), leakage=0.5)
            for i in range(4)
        ),
    )
    domain, loss = LABELS[label]
    policy = Policy(features, Label("y", domain, score=score))
    spending = plan_spending(
        policy,
        neighbor_classes(policy),
        budget=Budget(epsilon=epsilon, delta=1e-6),
        adapts_residual_bound=loss.adapts_residual_bound,
    )
    blocks = PolicyEncoder(policy).blocks_
    return rule(PlanInputs(blocks, spending, N_ROWS, loss))


def rows_of(plan, seed=0):
    """Return codes in their domain, and labels of which one is rare."""
    rng = np.random.default_rng(seed)
    codes = [rng.uniform(-0.5, 0.5, N_ROWS)]
    codes += [np.eye(3)[rng.integers(3, size=N_ROWS)].T for _ in range(4)]
    labels = (np.arange(N_ROWS) % 10 == 0).astype(float)
    if plan.loss.n_outputs == 3:
        labels += np.arange(N_ROWS) % 10 == 1
        labels += np.arange(N_ROWS) % 10 == 1
    return np.vstack(codes).T.copy(), labels


def started(plan, codes, labels, rng=None):
    rows = prepare_rows(codes, labels, plan.layout)
    return Descent(codes, rows, plan, rng or np.random.default_rng(0), labels)
