"""Search for the neighbors that move a gradient most: brute force, then local search.

A problem is a policy with a layout and a loss. Records are rows of raw values in
encoder coordinates; the class of neighbors says which features of the second record
may differ from the first.
"""

import itertools
import math
from dataclasses import dataclass

import numpy as np

from corrdp.policy import (
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    Slot,
    neighbor_classes,
    policy_blocks,
)
from corrdp.policy._coding import hat_codes
from corrdp.training._layout import GradientLayout
from corrdp.training._records import record_gradients
from corrdp.training.losses import Loss, MultinomialLoss

_SCORES = {False: 0.0, True: 0.5, "sensitive": 1.0}


def small_policy(
    *, protected=False, label="boolean", missing=False, relation=None, knots=None
):
    """Return two sensitive, three insensitive features and a public one.

    A protected label joins every class; ``protected="sensitive"`` makes it one more
    sensitive feature. Knots are those of age and hours.
    """
    slot = {"missing": Slot()} if missing else {}
    features = (
        Feature("age", "sensitive", NumberDomain(0, 1, knots=knots, **slot)),
        Feature("job", "sensitive", CategoryDomain(("a", "b", "c"))),
        Feature("hours", "insensitive", NumberDomain(0, 1, knots=knots), leakage=0.3),
        Feature("race", "insensitive", CategoryDomain(("p", "q"), **slot), leakage=0.2),
        Feature("sex", "insensitive", CategoryDomain(("f", "m")), leakage=0.2),
        Feature("year", "public", NumberDomain(0, 1)),
    )
    domain = NumberDomain(0, 1) if label == "number" else CategoryDomain(("n", "y"))
    return Policy(
        features,
        label=Label("income", domain, score=_SCORES[protected]),
        relation=relation or "one_insensitive",
        block_leakage=0.5 if relation == "all_insensitive" else None,
    )


@dataclass
class Problem:
    """Everything that decides what a record contributes."""

    policy: Policy
    layout: GradientLayout
    loss: Loss
    reference: np.ndarray

    @property
    def classes(self):
        return neighbor_classes(self.policy)

    def gradients(self, codes, y, coef, anchor=None):
        return record_gradients(
            codes, y, coef, self.loss, self.layout, self.reference, anchor=anchor
        )

    def labels(self):
        if isinstance(self.loss, MultinomialLoss):
            return list(range(self.loss.n_classes))
        if isinstance(self.policy.label.domain, NumberDomain):
            return [-0.5, 0.5]
        return [0, 1]

    def group_squares(self, change):
        """Return the squared movement per group, shape (n, n_groups)."""
        squares = change.reshape(*change.shape[:2], -1) ** 2
        owner = self.layout.column_groups
        return np.stack(
            [
                squares[:, owner == g].sum(axis=(1, 2))
                for g in range(len(self.layout.groups))
            ],
            axis=1,
        )


def feature_choices(policy, levels=(-0.5, 0.5)):
    """Return for every feature the codes it is tried at, as short rows."""
    choices = {}
    for block in policy_blocks(policy):
        width = block.stop - block.start
        own = choices.setdefault(block.feature, [])
        if block.kind == "number":
            own += [[level] for level in levels]
        elif block.kind == "hats":
            for code in own:
                code += hat_codes(block.positions, np.array(code)).tolist()[0]
        elif block.kind == "one_hot":
            own += np.eye(width).tolist()
        else:
            size = len(own[0])
            for code in own:
                code.append(0.0)
            own.append([0.0] * size + [1.0])
    return choices


def all_records(problem, levels=(-0.5, 0.5)):
    """Return all records on the grid: codes, labels, and the choice per feature."""
    choices = feature_choices(problem.policy, levels)
    picks = np.array(
        list(
            itertools.product(
                *(range(len(own)) for own in choices.values()),
                range(len(problem.labels())),
            )
        )
    )
    codes = np.hstack(
        [
            np.array(own, dtype=float)[picks[:, i]]
            for i, own in enumerate(choices.values())
        ]
    )
    return codes, np.array(problem.labels())[picks[:, -1]], picks


def neighbor_pairs(problem, neighbor, picks):
    """Return index pairs of records that are neighbors of a class."""
    names = list(feature_choices(problem.policy))
    fixed = [i for i, name in enumerate(names) if name not in neighbor.features]
    if not neighbor.label_changes:
        fixed.append(picks.shape[1] - 1)
    _, owner = np.unique(picks[:, fixed], axis=0, return_inverse=True)
    order = np.argsort(owner.ravel(), kind="stable")
    size = np.bincount(owner.ravel())[0]
    members = order.reshape(-1, size)
    first, second = np.triu_indices(size, k=1)
    return members[:, first].ravel(), members[:, second].ravel()


def corner_moves(problem, neighbor, coef, *, anchor=None, levels=(-0.5, 0.5)):
    """Return the squared group movements of all pairs of neighbors on the grid."""
    codes, y, picks = all_records(problem, levels)
    gradients = problem.gradients(codes, y, coef, anchor)
    first, second = neighbor_pairs(problem, neighbor, picks)
    return problem.group_squares(gradients[first] - gradients[second])


def local_search(problem, neighbor, coef, precision, rng, *, anchor=None, rounds=30):
    """Return the squared movements found by random restarts and shrinking steps."""
    starts = 40
    names, widths = _numbers(problem.policy)
    choices = feature_choices(problem.policy)

    def draw(count):
        columns = []
        for name, own in choices.items():
            rows = np.array(own)[rng.integers(len(own), size=count)]
            if name in names:
                rows = rows.copy()
                inside = rows[:, 0] != 0.0
                rows[inside, 0] = rng.uniform(-0.5, 0.5, inside.sum())
            columns.append(rows)
        return np.hstack(columns)

    labels = problem.labels()
    changes = np.concatenate(
        [np.full(widths[name], name in neighbor.features) for name in choices]
    )
    first = draw(starts)
    second = np.where(changes, draw(starts), first)
    y = np.array(labels)[rng.integers(len(labels), size=starts)]
    other = y.copy()
    if neighbor.label_changes:
        other = np.array(labels)[rng.integers(len(labels), size=starts)]

    def moves(a, b):
        return problem.group_squares(
            problem.gradients(a, y, coef, anchor)
            - problem.gradients(b, other, coef, anchor)
        )

    moving = np.concatenate(
        [[name in names] + [False] * (widths[name] - 1) for name in choices]
    )
    best = moves(first, second)
    step = 0.5
    for _ in range(rounds):
        common = rng.normal(0.0, step, first.shape) * moving
        own = rng.normal(0.0, step, first.shape) * moving * changes
        # a missing number is coded 0 and must stay there
        a = np.clip(first + common * (first != 0.0), -0.5, 0.5)
        b = np.clip(second + own * (second != 0.0), -0.5, 0.5)
        b = np.where(changes, b, a)
        a, b = np.where(moving, a, first), np.where(moving, b, second)
        tried = moves(a, b)
        better = tried @ precision > best @ precision
        first[better], second[better], best[better] = (
            a[better],
            b[better],
            tried[better],
        )
        step *= 0.85
    return best


def _numbers(policy):
    names, widths = set(), {}
    for block in policy_blocks(policy):
        widths[block.feature] = widths.get(block.feature, 0) + block.stop - block.start
        if block.kind == "number":
            names.add(block.feature)
    return names, widths


def worst_ratio(squares, rows, rng, *, n_precisions=60):
    """Return how much of the bound the movements use, over many precisions.

    `squares` are squared movements, `rows` squared bounds of one class; the result is
    at most 1 exactly if no tried precision lets a movement pass the bound.
    """
    n_groups = rows.shape[1]
    precisions = 10.0 ** rng.uniform(-3, 3, (n_precisions, n_groups))
    used = rng.random(precisions.shape) < 2.0 / n_groups  # most weight on few groups
    precisions = np.vstack([np.eye(n_groups), precisions, precisions * used])
    moved = (squares @ precisions.T).max(axis=0)
    allowed = (rows @ precisions.T).max(axis=0)
    still = moved <= 1e-24 * precisions.max(axis=1)
    ratio = np.where(still, 0.0, moved / np.maximum(allowed, 1e-300))
    return math.sqrt(ratio.max())
