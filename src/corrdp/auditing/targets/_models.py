"""Whole training runs: seen by their final model, or by every iterate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing._challenge import Challenge
from corrdp.auditing.statistics import Claim, LinearAttack
from corrdp.auditing.statistics._claims import joined_events
from corrdp.auditing.targets._gradients import GradientPath
from corrdp.policy import BlockKind
from corrdp.training import Descent, TrainingPlan, descend_together, prepare_rows
from corrdp.training._means import release_means


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """A table as training sees it.

    Parameters
    ----------
    codes : array of float, shape (n_rows, n_codes)
        Rows of the encoder.
    y : array of float, shape (n_rows,)
        Labels as encoded.
    """

    codes: FloatArray
    y: FloatArray


def model_challenges(
    plan: TrainingPlan,
    *,
    delta: float,
    claims: Mapping[str, Claim] | None = None,
    n_steps: int = 8,
    n_runs: int = 1000,
    white_box: bool = False,
    random_state: int = 0,
) -> tuple[Challenge[EncodedRows], ...]:
    """Challenge whole training runs, many models in one pass, class by class.

    Parameters
    ----------
    plan : TrainingPlan
        As an estimator's ``plan`` gives it.
    delta : float
        Where epsilons are read.
    claims : mapping of str to Claim, optional
        What is stated per class, for example `claims_of` a certificate; what the plan
        states by default.
    n_steps : int
        Steps of every run, among which the whole budget is divided.
    n_runs : int
        Runs on each neighbor.
    white_box : bool
        Whether the adversary sees every iterate, hence every noisy gradient, or the
        final model alone.
    random_state : int
        Seed of the search for neighbors.

    Guarantee
    ---------
    Tables of ``plan.n_rows`` rows, neighbors of the class they are named for; the claim
    is that of all releases of training together (`docs/theory/audit.md`).
    """
    plan = replace(plan, n_steps=n_steps)
    start = np.zeros((n_steps, plan.layout.n_columns))
    path = GradientPath.along(plan, start, delta=delta)
    rng = np.random.default_rng(random_state)

    def sample(table: EncodedRows, n_runs: int, rng: np.random.Generator) -> FloatArray:
        rows = prepare_rows(table.codes, table.y, plan.layout)
        models = [Descent(table.codes, rows, plan, rng) for _ in range(n_runs)]
        seen = _trained(models) if white_box else []
        descend_together(models)
        results = [model.result() for model in models]
        final = [np.append(result.coef, result.intercept) for result in results]
        return np.hstack([*seen, np.stack(final)])

    means = np.zeros((1, plan.layout.blocks[-1].stop))
    cost = release_means(means, plan.layout.blocks, plan.spending, rng)[1]
    challenges = []
    for neighbor in plan.spending.classes:
        pair = path.craft(neighbor, rng)
        first = _table(plan, path, pair.first, pair.first_label)
        second = _table(plan, path, pair.second, pair.second_label)
        parts = plan.spending.components(n_steps, cost)
        events = joined_events(part.events_of(neighbor.name) for part in parts)
        stated = (claims or {}).get(neighbor.name, Claim(events, delta))
        challenges.append(
            Challenge(
                target=f"training, {'white' if white_box else 'black'} box",
                class_name=neighbor.name,
                claim=stated,
                first=first,
                second=second,
                sample=sample,
                attacks=(LinearAttack(),),
                n_runs=n_runs,
                batch=50,
            )
        )
    return tuple(challenges)


def _trained(models: Sequence[Descent]) -> list[FloatArray]:
    """Train models side by side and return their parameters after every step."""
    seen = []
    while not models[0].finished:
        for model in models:
            bound = model.residual_bound
            model.advance(*model.rows.gradient_sum(model.coef, residual_bound=bound))
        seen.append(np.stack([model.coef for model in models]))
    return seen


def _table(
    plan: TrainingPlan, path: GradientPath, record: FloatArray, label: float
) -> EncodedRows:
    """Return the record among others whose means are central and labels balanced."""
    n_rows = plan.n_rows
    codes = np.zeros((n_rows, record.size))
    for block in plan.layout.blocks:
        if block.kind is BlockKind.ONE_HOT:
            level = np.arange(n_rows) % (block.stop - block.start)
            codes[np.arange(n_rows), block.start + level] = 1.0
    y = np.resize(path.labels, n_rows)
    codes[0], y[0] = record, label
    return EncodedRows(codes, y)
