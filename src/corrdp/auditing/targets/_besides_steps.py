"""What training releases besides gradients, through the functions that release it.

Means of encoded columns, the mean that networks put in the place of sensitive codes,
counts of small residuals, and the constant of a model that learns labels alone.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing._challenge import Challenge, Deadline, replayed
from corrdp.auditing.statistics import Claim
from corrdp.auditing.statistics._attacks import gaussian_score
from corrdp.auditing.targets._descent import DescentSteps, as_labels, label_values
from corrdp.auditing.targets._neighbors import RecordPair, craft_pair
from corrdp.auditing.targets._releases import plan_claim
from corrdp.auditing.targets._steps import central_rows, central_table, neighbor_tables
from corrdp.certificate import Component
from corrdp.policy import Block, NeighborClass
from corrdp.training import (
    CodeTotals,
    Descent,
    TrainingPlan,
    constant_model,
    initial_coef,
    release_means,
)

if TYPE_CHECKING:
    from corrdp.torch.networks import ReferencePlan

_N_RUNS, _BATCH = 4000, 500
_APART = 50.0  # scores of two records, one of which is fitted: more than any bound
_N_COUNTS = 4

Pair = tuple[FloatArray, FloatArray]


def mean_challenges(
    plan: TrainingPlan,
    *,
    delta: float,
    random_state: int | None = 0,
    deadline: Deadline | None = None,
) -> tuple[Challenge[FloatArray], ...]:
    """Challenge the column means that training releases first, if it does.

    Parameters as in `descent_challenges`.

    Guarantee
    ---------
    Central tables that differ in one record, as the class allows; sums are released by
    `corrdp.training.release_means` (`docs/theory/audit.md`).
    """
    blocks, spending, n_rows = plan.layout.blocks, plan.spending, plan.n_rows
    noise_scale, cost = spending.means_noise
    if not any(cost.values()):
        return ()
    scale = np.repeat(noise_scale, [block.stop - block.start for block in blocks])
    furthest = _search(blocks, label_values(plan.loss), random_state, deadline)

    def sample(total: FloatArray, n_runs: int, rng: np.random.Generator) -> FloatArray:
        totals = CodeTotals(total, n_rows)
        means = [release_means(totals, spending, rng) for _ in range(n_runs)]
        return n_rows * np.stack(means)

    return replayed(
        "column means",
        spending.classes,
        lambda name: Claim.gaussian(cost[name], delta=delta),
        lambda neighbor, k: _totals(furthest(neighbor), blocks, n_rows, k),
        sample,
        most_records=n_rows // 2,
        score=lambda first, second: gaussian_score(first, second, scale),
        n_runs=_N_RUNS,
        batch=_BATCH,
    )


def reference_challenges(
    plan: "ReferencePlan",
    classes: Sequence[NeighborClass],
    n_rows: int,
    *,
    random_state: int | None = 0,
) -> tuple[Challenge[FloatArray], ...]:
    """Challenge the mean of sensitive codes that a network releases first.

    Guarantee
    ---------
    As `mean_challenges`; sums are released by `ReferencePlan.release_total`
    (`docs/theory/audit.md`).
    """
    furthest = _search(plan.blocks, (0.0,), random_state)

    def pair_of(neighbor: NeighborClass, n_records: int) -> Pair:
        both = _totals(furthest(neighbor), plan.blocks, n_rows, n_records)
        return both[0][plan.columns], both[1][plan.columns]

    def sample(total: FloatArray, n_runs: int, rng: np.random.Generator) -> FloatArray:
        released = [plan.release_total(total, n_rows, rng) for _ in range(n_runs)]
        return np.stack(released)[:, plan.columns]

    return replayed(
        "reference",
        classes,
        lambda name: plan_claim(plan.noise, name),
        pair_of,
        sample,
        most_records=n_rows // 2,
        n_runs=_N_RUNS,
        batch=_BATCH,
    )


def count_challenges(
    plan: TrainingPlan,
    *,
    delta: float,
    descent: type[Descent] = Descent,
    random_state: int | None = 0,
    deadline: Deadline | None = None,
) -> tuple[Challenge[FloatArray], ...]:
    """Challenge the counts of small residuals by which a bound is adapted, if any.

    Parameters as in `descent_challenges`.

    Guarantee
    ---------
    Records are counted by the kernels of training, at parameters that fit one of the
    two and not the other; noise is that of `Descent.noisy_count`
    (`docs/theory/audit.md`).
    """
    length = _N_COUNTS * plan.solver.epoch_steps
    path = np.zeros((length, *initial_coef(plan).shape))
    steps = DescentSteps(plan, path, np.random.default_rng(random_state), descent)
    parts = [
        part for part in steps.plan.components() if part.name == "residual fractions"
    ]
    if not parts:
        return ()
    furthest = _search(plan.layout.blocks, steps.labels, random_state, deadline)

    def pair_of(neighbor: NeighborClass, n_records: int) -> Pair:
        pair = furthest(neighbor)
        coef = steps.fitting(pair, _APART)
        first, second = (
            np.array([steps.count_at(coef, table.codes, table.y)])
            for table in neighbor_tables(
                pair, steps.blocks, steps.labels, plan.n_rows, n_records
            )
        )
        return first, second

    def sample(count: FloatArray, n_runs: int, rng: np.random.Generator) -> FloatArray:
        del rng  # the descent has its own
        return steps.noisy_counts(np.broadcast_to(count, (n_runs, _N_COUNTS)))

    return replayed(
        "small residuals",
        plan.spending.classes,
        lambda name: Claim(Component.joint_events(parts, name), delta),
        pair_of,
        sample,
        most_records=plan.n_rows // 2,
        n_runs=_N_RUNS,
        batch=_BATCH,
    )


def constant_challenges(
    plan: TrainingPlan, *, delta: float
) -> tuple[Challenge[FloatArray], ...]:
    """Challenge the constant of a plan that learns labels alone.

    Guarantee
    ---------
    Tables that differ in one label where the class may change it; the model is that of
    `corrdp.training.constant_model` (`docs/theory/audit.md`).
    """
    labels, parts = label_values(plan.loss), plan.components()
    _, balanced = central_table(plan.layout.blocks, labels, plan.n_rows)

    def pair_of(neighbor: NeighborClass, n_records: int) -> Pair:
        y, other = balanced.copy(), balanced.copy()
        y[:n_records] = other[:n_records] = labels[0]
        if neighbor.label_changes:
            other[:n_records] = labels[-1]
        return y, other

    def sample(y: FloatArray, n_runs: int, rng: np.random.Generator) -> FloatArray:
        own = as_labels(y, plan.loss)
        found = [constant_model(own, plan, rng).intercept for _ in range(n_runs)]
        return np.array(found).reshape(n_runs, -1)

    return replayed(
        "constant model",
        plan.spending.classes,
        lambda name: Claim(Component.joint_events(parts, name), delta),
        pair_of,
        sample,
        most_records=plan.n_rows // 2,
        n_runs=_N_RUNS,
        batch=_BATCH,
    )


def _totals(
    pair: RecordPair, blocks: Sequence[Block], n_rows: int, n_records: int
) -> Pair:
    """Return the sums of two central tables with records of the pair in them."""
    around = central_rows(blocks, n_rows)[n_records:].sum(axis=0)
    return around + n_records * pair.first, around + n_records * pair.second


def _search(
    blocks: Sequence[Block],
    labels: Sequence[float],
    random_state: int | None,
    deadline: Deadline | None = None,
) -> Callable[[NeighborClass], RecordPair]:
    """Return what finds records of a class that are far apart in codes.

    Labels count a little, so that they differ where they may.
    """
    rng = np.random.default_rng(random_state)

    def distance(
        first: FloatArray, first_y: FloatArray, second: FloatArray, second_y: FloatArray
    ) -> FloatArray:
        apart = np.linalg.norm(first - second, axis=1)
        return np.asarray(apart + 1e-3 * np.abs(first_y - second_y))

    return lambda neighbor: craft_pair(
        blocks, neighbor, distance, labels=labels, rng=rng, deadline=deadline
    )
