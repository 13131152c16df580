"""Whole training runs: seen by their final model, or by every iterate."""

from collections.abc import Mapping, Sequence

import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing._challenge import Challenge, Deadline
from corrdp.auditing.statistics import Claim, LinearAttack
from corrdp.auditing.targets._descent import DescentSteps
from corrdp.auditing.targets._steps import EncodedRows, craft, neighbor_tables
from corrdp.certificate import Component
from corrdp.training import (
    Descent,
    TrainingPlan,
    descend_together,
    initial_coef,
    is_plain,
    prepare_rows,
)


def model_challenges(
    plan: TrainingPlan,
    *,
    delta: float,
    claims: Mapping[str, Claim] | None = None,
    n_steps: int = 8,
    n_runs: int = 1000,
    white_box: bool = False,
    random_state: int | None = 0,
    deadline: Deadline | None = None,
) -> tuple[Challenge[EncodedRows], ...]:
    """Challenge whole training runs, many models in one pass, class by class.

    Parameters
    ----------
    plan, delta, random_state, deadline
        As in `descent_challenges`.
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

    Guarantee
    ---------
    Tables of ``plan.n_rows`` rows, neighbors of the class they are named for; the claim
    is that of all releases of training together (`docs/theory/audit.md`).
    """
    epoch = plan.solver.epoch_steps
    plan = plan.with_steps(-(-n_steps // epoch) * epoch)
    rng = np.random.default_rng(random_state)
    path = np.zeros((plan.n_steps, *initial_coef(plan).shape))
    walks = [DescentSteps(walk.alone, path, rng) for walk in plan.walks]
    blocks, labels = plan.layout.blocks, walks[0].labels

    def sample(table: EncodedRows, n_runs: int, rng: np.random.Generator) -> FloatArray:
        plain = is_plain(plan.loss, plan.solver)
        rows = prepare_rows(table.codes, table.y, plan.layout, compiled=plain)
        models = [Descent(table.codes, rows, plan, rng, table.y) for _ in range(n_runs)]
        seen = _trained(models) if white_box else []
        descend_together(models)
        results = [model.result() for model in models]
        final = [np.append(result.coef.ravel(), result.intercept) for result in results]
        return np.hstack([*seen, np.stack(final)])

    parts = plan.components()
    challenges = []
    for neighbor in plan.spending.classes:
        pair = max(
            (craft(steps, neighbor, rng, deadline=deadline) for steps in walks),
            key=lambda pair: pair.movement,
        )
        events = Component.joint_events(parts, neighbor.name)
        stated = (claims or {}).get(neighbor.name, Claim(events, delta))
        n_records = stated.n_records(plan.n_rows // 2)
        first, second = neighbor_tables(pair, blocks, labels, plan.n_rows, n_records)
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
                is_slow=True,
                n_records=n_records,
            )
        )
    return tuple(challenges)


def _trained(models: Sequence[Descent]) -> list[FloatArray]:
    """Train models side by side and return their parameters after every step."""
    seen = []
    while not models[0].finished:
        for model in models:
            model.advance(*model.exact_gradient())
        seen.append(np.stack([model.coef.ravel() for model in models]))
    return seen
