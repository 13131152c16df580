"""Whether the cells of a table are what a policy declares, column by column."""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy._encoder import read_cells
from corrdp.policy._features import number_columns
from corrdp.policy._policy import Policy
from corrdp.tables import is_source, iter_batches, read_distinct


def require_fit(policy: Policy, table: Any, names: Collection[str]) -> None:
    """Raise if a named column does not fit, so that nobody pays for what is refused.

    Guarantee
    ---------
    Releases nothing but a refusal, which depends on rows (`docs/theory/encoder.md`).
    """
    parts: Iterable[Any] = [table]
    if is_source(table):
        numbers = number_columns(policy.columns)
        parts = iter_batches(table, list(names), number_columns=numbers)
    for part in parts:
        for problem in table_problems(policy, part, names).values():
            raise PolicyError(problem)


def table_problems(
    policy: Policy, table: Any, names: Collection[str] | None = None
) -> dict[str, str]:
    """Return what is wrong with each column that does not fit, without its values.

    Of all columns, or only of those that are named.
    """
    problems = {}
    for column in policy.columns:
        if names is not None and column.name not in names:
            continue
        known = [column.name]
        if isinstance(table, np.ndarray):  # whose columns are the features
            known = [feature.name for feature in policy.features]
        try:
            read_cells(column, read_distinct(table, known, only=[column.name])[0])
        except CorrDPError as error:
            problems[column.name] = str(error)
    return problems
