"""The certified twin of a figure: the library's estimators, untouched."""

from collections.abc import Sequence

from corrdp.estimators import sweep
from corrdp.reproduction._data import load_table
from corrdp.reproduction._experiments import Cell, CellResult

_ANY_EPSILON = 1.0  # methods without noise do not look at it


def train_certified(cells: Sequence[Cell]) -> list[CellResult]:
    """Train all seeds of linear or logistic cells by the estimators' default rule.

    Guarantee
    ---------
    Each model by itself keeps its method's promise at its epsilon
    (`docs/theory/default_rule.md`): ``corr`` the policy's, ``standard`` ordinary DP,
    ``semi`` that of sensitive features and nothing about the others. Their scores
    are computed without noise: research on public tables.
    """
    return [_train(cell) for cell in cells]


def _train(cell: Cell) -> CellResult:
    experiment = cell.experiment
    table = load_table(experiment)
    result = sweep(
        table.frame,
        policy=table.policy,
        methods=[cell.method],
        epsilons=[cell.epsilon if cell.is_private else _ANY_EPSILON],
        delta=experiment.delta,
        seeds=cell.n_seeds,
        model=experiment.model.value,
        research=True,
    )
    scores = tuple(row["score"] for row in result.rows)
    if not cell.is_private:
        return CellResult(scores)
    return CellResult(scores, {"sensitive": cell.epsilon}, cell.epsilon)
