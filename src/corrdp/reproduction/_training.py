"""Which trainer a cell needs, and which cells are trained together."""

from collections.abc import Iterable, Sequence

from corrdp.estimators import sweep
from corrdp.reproduction._data import load_table
from corrdp.reproduction._experiments import Calibration, Cell, CellResult, Model
from corrdp.reproduction._theorem import train_by_theorem

# Work of one model at one step, relative to a pass over one row of one column.
_CERTIFIED_STEPS = 500
_CERTIFIED_EFFORT = 4.0
_NETWORK_EFFORT = 4.0
_ANY_EPSILON = 1.0  # methods without noise do not look at it


def train(cells: Sequence[Cell]) -> list[CellResult]:
    """Train cells of one experiment and calibration; results in their order.

    Guarantee
    ---------
    Each result states what is proved for it (`docs/theory/paper_noise.md`).
    """
    first = cells[0]
    if first.experiment.model is Model.NETWORK:
        return _train_networks(cells)
    if first.calibration is Calibration.CERTIFIED:
        return train_certified(cells)
    return train_by_theorem(cells)


def _train_networks(cells: Sequence[Cell]) -> list[CellResult]:
    import torch

    from corrdp.reproduction._networks import train_network_cells

    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # small matrices: threads would only wait for each other
    try:
        return train_network_cells(cells)
    finally:
        torch.set_num_threads(n_threads)


def together(cells: Iterable[Cell]) -> list[tuple[Cell, ...]]:
    """Group cells so that one pass over the rows serves many models.

    Cells of one method under the paper's noise share a pass; the certified ones are
    planned one by one. A group is lost if a run is interrupted, so it stays small.
    """
    groups: dict[tuple[str, ...], list[Cell]] = {}
    for cell in cells:
        key: tuple[str, ...] = (
            cell.experiment.name,
            cell.calibration.value,
            cell.method,
        )
        if cell.calibration is Calibration.CERTIFIED:
            key = (*key, str(cell.epsilon))
        groups.setdefault(key, []).append(cell)
    return [tuple(group) for group in groups.values()]


def effort(cells: Sequence[Cell]) -> float:
    """Return a rough measure of work, by which the time left is told."""
    experiment = cells[0].experiment
    n_models = sum(cell.n_seeds if cell.is_private else 1 for cell in cells)
    rows = experiment.n_rows or 40_000
    if experiment.model is Model.NETWORK:
        rows = experiment.batch_size or rows
        return _NETWORK_EFFORT * rows * experiment.n_steps * n_models
    if cells[0].calibration is Calibration.CERTIFIED:
        return _CERTIFIED_EFFORT * rows * _CERTIFIED_STEPS * n_models
    if experiment.data == "synthetic":
        rows = 100  # the Gram matrix
    return float(rows * experiment.n_steps * n_models)


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
