"""The columns that a policy declares, read from any source."""

from typing import Any

from corrdp.policy._features import Feature, Label, number_columns
from corrdp.policy._policy import Policy
from corrdp.tables import read_table


def read_declared(
    source: Any, policy: Policy, *, with_label: bool = True, with_others: bool = False
) -> Any:
    """Return the policy's columns of a source, label and unit included, in memory.

    Parameters
    ----------
    source : path or source
        See `corrdp.tables.iter_batches`.
    policy : Policy
        Names the columns, and tells which are numbers.
    with_label : bool
        Whether the label is read.
    with_others : bool
        Whether columns that the policy does not name are read too, as texts.

    Guarantee
    ---------
    A cell of the table is a function of the same cell of the source
    (docs/theory/encoder.md).
    """
    declared: list[Feature | Label] = [*policy.features]
    if with_label and policy.label is not None:
        declared.append(policy.label)
    names = [column.name for column in declared]
    names += [] if policy.unit is None else [policy.unit]
    return read_table(
        source,
        None if with_others else names,
        number_columns=number_columns(declared),
    )
