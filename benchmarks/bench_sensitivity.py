"""Time the bounds of one training step, and weigh what their detail saves in noise.

The policy has the shape of Adult: nine features, 31 columns, three insensitive one-hot
codes and a number. Run with OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1.
"""

import math
import timeit
from dataclasses import replace

import numpy as np

from corrdp.accounting import allocate_noise, gaussian_mu
from corrdp.policy import (
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    class_epsilon,
    neighbor_classes,
    policy_blocks,
)
from corrdp.training._layout import GradientLayout
from corrdp.training.losses import LogisticLoss, SquaredLoss
from corrdp.training.sensitivity._corners import chains_of, feature_geometries
from corrdp.training.sensitivity._gradient import GradientSensitivity
from corrdp.training.sensitivity._movement import movement_bounds
from corrdp.training.sensitivity._residuals import logistic_pairs
from corrdp.training.sensitivity._scores import ScoreRanges
from corrdp.training.sensitivity._table import movement_table

EPSILON, DELTA = 1.0, 1e-5
N_CALLS = 200


def adult_policy() -> Policy:
    number = NumberDomain(0, 1)
    leakage = {5: 0.23, 2: 0.22, 7: 0.90}
    return Policy(
        (
            *(Feature(f"number {i}", "sensitive", number) for i in range(3)),
            *(Feature(f"code {k}", "sensitive", _levels(k)) for k in (6, 7)),
            *(
                Feature(f"code {k}+", "insensitive", _levels(k), leakage=value)
                for k, value in leakage.items()
            ),
            Feature("hours", "insensitive", number, leakage=1.0),
        ),
        label=Label("income", CategoryDomain(("low", "high")), score=0.0),
    )


def wide_policy() -> Policy:
    """Return the paper's synthetic shape: 10 sensitive and 90 other numbers."""
    return Policy(
        tuple(
            Feature(f"x{i}", "sensitive", NumberDomain(0, 1))
            if i < 10
            else Feature(f"x{i}", "insensitive", NumberDomain(0, 1), leakage=0.1)
            for i in range(100)
        ),
        label=Label("y", CategoryDomain(("0", "1")), score=0.0),
    )


def layout_of(policy: Policy, *, bounded: bool, joint: bool = False) -> GradientLayout:
    layout = GradientLayout.by_role(policy_blocks(policy), joint_insensitive=joint)
    if not bounded:
        return layout
    groups = tuple(
        replace(
            group,
            clip_norm=1.0,
            influence_bound=(
                math.inf if group.name in ("sensitive", "intercept") else 0.1
            ),
        )
        for group in layout.groups
    )
    return replace(layout, groups=groups)


def timings() -> list[dict]:
    rows = []
    adult, wide = adult_policy(), wide_policy()
    cases = [
        ("Adult, logistic", adult, LogisticLoss(), False, False),
        ("Adult, logistic, clipped, bounded", adult, LogisticLoss(), True, False),
        ("Adult, squared, clipped, bounded", adult, SquaredLoss(0.25), True, False),
        ("100 features, logistic", wide, LogisticLoss(), True, True),
    ]
    for name, policy, loss, bounded, joint in cases:
        layout = layout_of(policy, bounded=bounded, joint=joint)
        coef = np.random.default_rng(0).normal(0.0, 0.3, layout.n_columns)
        for compiled in (True, False):
            sensitivity = GradientSensitivity(
                loss, layout, neighbor_classes(policy), compiled=compiled
            )
            table = sensitivity.bounds(coef)  # compile before the clock starts
            calls = timeit.repeat(
                lambda bound=sensitivity, coef=coef: bound.bounds(coef),
                number=N_CALLS,
                repeat=15,
            )
            rows.append(
                {
                    "name": f"{name}, {'compiled' if compiled else 'numpy'}",
                    "value": 1e6 * min(calls) / N_CALLS,
                    "unit": "us",
                    "target": "< 40" if compiled and "Adult" in name else "",
                    "note": f"{table.shape[0]} rows x {table.shape[1]} groups",
                }
            )
    return rows


def noise_saved() -> list[dict]:
    """Compare the least total variance under bounds of growing detail."""
    policy = adult_policy()
    sensitivity = GradientSensitivity(
        LogisticLoss(), layout_of(policy, bounded=False), neighbor_classes(policy)
    )
    owners = np.array(sensitivity.row_classes)
    rows = []
    for spread in (0.0, 0.3, 1.0, 3.0):
        rng = np.random.default_rng(0)
        coef = rng.normal(0.0, spread, sensitivity.layout.n_columns)
        exact = _least_variance(sensitivity, policy, sensitivity.bounds(coef))
        corners = without_lens(sensitivity, coef)
        single = np.stack([corners[owners == name].max(axis=0) for name in owners])
        for table, note in (
            (corners, "residuals up to 1, no tangents"),
            (single, "one row per class"),
        ):
            rows.append(
                {
                    "name": f"variance at coefficients of size {spread:g}, {note}",
                    "value": exact / _least_variance(sensitivity, policy, table),
                    "unit": "ratio",
                    "target": "<= 1",
                    "note": "this library / that bound",
                }
            )
    return rows


def without_lens(sensitivity: GradientSensitivity, coef: np.ndarray) -> np.ndarray:
    """Return valid bounds that let every residual be as large as 1."""
    layout, classes = sensitivity.layout, sensitivity.classes
    geometries = feature_geometries(layout)
    chains = tuple(chains_of(sensitivity.loss, layout, geometries, classes))
    scores = ScoreRanges(layout, geometries, classes, None).at(coef)
    limit = max(scores.high, -scores.low)
    pairs = logistic_pairs(limit, scores.change, scores.reference_change)
    box = pairs._replace(
        peak=1.0, peak_gap=pairs.largest_gap, slope=np.zeros_like(pairs.largest_gap)
    )
    return movement_bounds(
        movement_table(layout, geometries, classes, chains), box, scalar=True
    )


def _least_variance(
    sensitivity: GradientSensitivity, policy: Policy, table: np.ndarray
) -> float:
    allowed = {
        neighbor.name: gaussian_mu(
            epsilon=class_epsilon(
                neighbor.distance, epsilon=EPSILON, epsilon_cap=policy.epsilon_cap
            ),
            delta=DELTA,
        )
        for neighbor in sensitivity.classes
        if neighbor.promised
    }
    budget = np.array([allowed.get(name, math.inf) for name in sensitivity.row_classes])
    sizes = np.array([group.size for group in sensitivity.groups], dtype=float)
    return allocate_noise(table, budget_mu=budget, sizes=sizes).objective


def _levels(count: int) -> CategoryDomain:
    return CategoryDomain(tuple(f"level {i}" for i in range(count)))


def run() -> list[dict]:
    rows = timings() + noise_saved()
    for row in rows:
        print(
            f"{row['name']:<75} {row['value']:9.3f} {row['unit']:<6} "
            f"{row['target']:<6} {row['note']}"
        )
    return rows


if __name__ == "__main__":
    run()
