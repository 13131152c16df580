"""Whole training runs: seen by their final model, or by every iterate."""

from collections.abc import Mapping, Sequence

import numpy as np

from corrdp._typing import FloatArray
from corrdp.auditing._challenge import Challenge, Deadline, replayed
from corrdp.auditing.statistics import Claim
from corrdp.auditing.targets._descent import DescentSteps
from corrdp.auditing.targets._steps import EncodedRows, craft, neighbor_tables
from corrdp.certificate import Component
from corrdp.policy import NeighborClass
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

    The whole budget is divided among `n_steps`. Claims are what is stated per class,
    for example `claims_of` a certificate; what the plan states by default. In a white
    box the adversary sees every iterate, hence every noisy gradient, else the final
    model alone. Everything else as in `descent_challenges`.

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

    def pair_of(
        neighbor: NeighborClass, n_records: int
    ) -> tuple[EncodedRows, EncodedRows]:
        pair = max(
            (craft(steps, neighbor, rng, deadline=deadline) for steps in walks),
            key=lambda pair: pair.movement,
        )
        return neighbor_tables(pair, blocks, labels, plan.n_rows, n_records)

    def stated(name: str) -> Claim:
        events = Component.joint_events(parts, name)
        return (claims or {}).get(name, Claim(events, delta))

    return replayed(
        f"training, {'white' if white_box else 'black'} box",
        plan.spending.classes,
        stated,
        pair_of,
        sample,
        most_records=plan.n_rows // 2,
        n_runs=n_runs,
        batch=50,
        is_slow=True,
    )


def _trained(models: Sequence[Descent]) -> list[FloatArray]:
    """Train models side by side and return their parameters after every step."""
    seen = []
    while not models[0].finished:
        for model in models:
            model.advance(*model.exact_gradient())
        seen.append(np.stack([model.coef.ravel() for model in models]))
    return seen
