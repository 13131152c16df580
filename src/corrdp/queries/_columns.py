"""Columns that queries read: features and the label, by their declared domains."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray, IntArray
from corrdp.exceptions import CorrDPError, MissingBoundError, PolicyError
from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    Feature,
    NumberDomain,
    Policy,
    PolicyEncoder,
    Slot,
    without_knots,
)
from corrdp.tables import check_columns

MISSING = "(missing)"
OTHER = "(other)"
LARGEST_BOUND = 1e150
"""Of a number in a question: squares of it, and sums over rows, are still numbers."""


SMALLEST_WIDTH = 1e-150
"""Of the bounds of a number in a question: its square is still above 0."""


class Numbers(NamedTuple):
    """Numbers in [-1/2, 1/2], zero where missing, and where they are not missing."""

    values: FloatArray
    present: NDArray[np.bool_]


def column(policy: Policy, name: str) -> Feature:
    """Return a feature, or the label as if it were one, or raise `PolicyError`."""
    if policy.label is not None and policy.label.name == name:
        return Feature(name, "sensitive", policy.label.domain)  # type: ignore[arg-type]
    return policy.feature(name)


def _place(policy: Policy, name: str) -> str:
    """Return where a policy file declares a column."""
    is_label = policy.label is not None and policy.label.name == name
    return "label" if is_label else f"features.{name}"


def number_bounds(policy: Policy, name: str) -> tuple[float, float]:
    """Return the declared bounds of a number; a boolean is 0 or 1.

    Bounds of which answers could not be computed are refused here: a plan asks for them
    before a ledger is charged.
    """
    domain = column(policy, name).domain
    if isinstance(domain, NumberDomain):
        if max(abs(domain.lower), abs(domain.upper)) > LARGEST_BOUND:
            raise PolicyError(
                f"the bounds of {name!r} are beyond {LARGEST_BOUND:g}, where sums and "
                "squares are no numbers any more. Declare "
                f"{_place(policy, name)}.bounds within it."
            )
        if domain.upper - domain.lower < SMALLEST_WIDTH:
            raise PolicyError(
                f"the bounds of {name!r} are less than {SMALLEST_WIDTH:g} apart, where "
                f"squares are 0. Declare {_place(policy, name)}.bounds in another unit."
            )
        return domain.lower, domain.upper
    if isinstance(domain, BooleanDomain):
        return 0.0, 1.0
    raise MissingBoundError(
        f"column {name!r} is a category and has no bounds, which a sum needs. Ask for "
        f"its histogram, or declare it as a number with bounds."
    )


def may_be_missing(policy: Policy, name: str) -> bool:
    """Return whether missing values of a column have a slot of their own."""
    return isinstance(column(policy, name).domain.missing, Slot)


def group_names(policy: Policy, name: str) -> tuple[str, ...]:
    """Return the declared groups of a column, in the order of its codes."""
    domain = column(policy, name).domain
    if isinstance(domain, CategoryDomain):
        names = domain.levels
        if domain.other:
            names = (*names, _slot_name(OTHER, names))
    elif isinstance(domain, BooleanDomain):
        names = ("false", "true")
    elif domain.bins is None:
        raise MissingBoundError(
            f"column {name!r} is a number without bins, and bins cannot be read from "
            f"private rows. Declare {_place(policy, name)}.bins."
        )
    elif domain.steps is not None:
        names = tuple(map(str, domain.steps))
    else:
        edges = distinct_texts(bin_edges(policy, name).tolist())
        names = tuple(f"{low} to {high}" for low, high in pairwise(edges))
    if isinstance(domain.missing, Slot):
        names = (*names, _slot_name(MISSING, names))
    return names


def _slot_name(name: str, taken: tuple[str, ...]) -> str:
    """Return the name of a slot, in parentheses once more if a group is called so."""
    while name in taken:
        name = f"({name})"
    return name


def bin_edges(policy: Policy, name: str) -> FloatArray:
    """Return the edges of the declared bins of a number, joined ones as one."""
    domain = column(policy, name).domain
    if not isinstance(domain, NumberDomain) or domain.bins is None:
        raise MissingBoundError(
            f"column {name!r} has no declared bins, which quantiles need. Declare it "
            "as a number with bounds and bins."
        )
    return np.asarray(domain.edges)


def read_numbers(policy: Policy, table: Any, name: str) -> Numbers:
    """Return a number or a boolean clipped to its bounds and centered."""
    encoder, only = _one_column(policy, table, name)
    encoded = encoder.transform(only)
    present = np.ones(len(encoded), dtype=np.bool_)
    if encoded.shape[1] == 2:
        present = encoded[:, 1] == 0.0
    return Numbers(encoded[:, 0], present)


def read_centered(policy: Policy, name: str, value: float) -> float:
    """Return where the encoder puts a number of the domain, between -1/2 and 1/2.

    Comparing codes is comparing numbers: the encoder is monotone, and a cell that
    equals the number has its very code.
    """
    return float(_encoder_of(policy, name).transform(np.array([[value]]))[0, 0])


def read_groups(policy: Policy, table: Any, name: str) -> IntArray:
    """Return the index into `group_names` of every row."""
    encoder, only = _one_column(policy, table, name)
    return encoder.codes(only)[:, 0]


def require_columns(policy: Policy, table: Any, names: Iterable[str]) -> None:
    """Raise `PolicyError` unless a table has the columns, of which no cell is read."""
    for name in names:
        _, found = _one_column(policy, table, name)
        if not isinstance(found, np.ndarray):
            check_columns(found, [name])


def count_rows(table: Any) -> int:
    """Return the number of rows, which is public."""
    try:
        return len(table)
    except TypeError:
        raise CorrDPError(
            f"the table is a {type(table).__name__}. Pass a pandas, polars or pyarrow "
            "table, or a numpy array of two dimensions."
        ) from None


def distinct_texts(numbers: Sequence[float]) -> list[str]:
    """Write numbers with as few digits as tell them apart."""
    for digits in range(6, 18):
        texts = [f"{number:.{digits}g}" for number in numbers]
        if len(set(texts)) == len(texts):
            break
    return texts


def _one_column(
    policy: Policy, table: Any, name: str, computed: frozenset[str] = frozenset()
) -> tuple[PolicyEncoder, Any]:
    encoder = _encoder_of(policy, name)
    if isinstance(table, ExtendedTable):
        if name in table.columns:
            return encoder, table.column(name)
        return _one_column(policy, table.table, name, frozenset(table.columns))
    if isinstance(table, np.ndarray):
        names = [f.name for f in policy.features if f.name not in computed]
        if table.ndim != 2 or table.shape[1] != len(names) or name not in names:
            raise PolicyError(
                f"column {name!r} cannot be found in a numpy array: its columns are "
                f"the {len(names)} features of the policy, without the label. Pass a "
                "table with column names."
            )
        return encoder, table[:, [names.index(name)]]
    return encoder, table


def _encoder_of(policy: Policy, name: str) -> PolicyEncoder:
    domain = column(policy, name).domain
    alone = Policy((Feature(name, "sensitive", domain),))  # type: ignore[arg-type]
    # A number is then one code, and a second that says where it is missing.
    return PolicyEncoder(without_knots(alone))


Computed = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class DerivedColumns:
    """Columns that are computed from a row, their domains and what they read.

    Parameters
    ----------
    domains : mapping of str to domain
        What each column may hold; values are clipped to it like any other.
    inputs : mapping of str to frozenset of str
        Columns of the policy that each one reads.
    compute : callable
        From the table to one value per row of every column; called once paid for. The
        value of a row must depend on that row alone.
    """

    domains: Mapping[str, NumberDomain | CategoryDomain]
    inputs: Mapping[str, frozenset[str]]
    compute: Callable[[Any], Computed]

    def view(self, policy: Policy) -> Policy:
        """Return the policy with the columns, for their domains.

        They stand as public there only because no class of the policy names them:
        prices go through `reached`.
        """
        taken = {feature.name for feature in policy.features} & set(self.domains)
        if taken:
            raise PolicyError(
                f"column {sorted(taken)[0]!r} has a name that evaluation needs. Rename "
                "it in the policy and in the table."
            )
        extra = tuple(
            Feature(name, "public", domain)  # type: ignore[arg-type]
            for name, domain in self.domains.items()
        )
        return replace(policy, features=(*policy.features, *extra))

    def reached(self, changed: frozenset[str]) -> frozenset[str]:
        """Return the columns that change with the changed ones.

        Guarantee
        ---------
        A derived column is a function of its inputs, so it stays where it is unless one
        of them changes (``docs/theory/queries.md``).
        """
        follows = {name for name, inputs in self.inputs.items() if inputs & changed}
        return changed | follows

    def extend(self, table: Any) -> "ExtendedTable":
        """Return the table with the computed columns."""
        return ExtendedTable(table, dict(self.compute(table)))


@dataclass(frozen=True, eq=False)
class ExtendedTable:
    """A table, and columns beside it that are read first."""

    table: Any
    columns: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.table)

    def column(self, name: str) -> FloatArray | NDArray[Any]:
        """Return a computed column as a table of one column."""
        return np.asarray(self.columns[name]).reshape(-1, 1)
