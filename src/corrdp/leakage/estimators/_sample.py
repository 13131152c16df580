"""Values that estimators see: numbers on the unit scale, and discrete codes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import IntArray
from corrdp.exceptions import PolicyError
from corrdp.leakage._coding import check_resolution
from corrdp.leakage._levels import level_texts
from corrdp.policy import Feature, NumberDomain, Policy, PolicyEncoder, Slot


@dataclass(frozen=True, eq=False)
class SampleColumn:
    """One feature of a sample.

    Parameters
    ----------
    feature : Feature
        Its declaration.
    values : array
        Numbers in [0, 1], 0 the lower and 1 the upper bound; or integer codes.
    n_codes : int or None
        Number of codes; None for numbers.
    """

    feature: Feature
    values: NDArray[Any]
    n_codes: int | None

    @property
    def is_number(self) -> bool:
        """Whether the values are numbers, not codes."""
        return self.n_codes is None

    @property
    def texts(self) -> tuple[str, ...]:
        """One text per code."""
        return level_texts(self.feature, self.n_codes or 1)

    def raw(self, place: float) -> float:
        """Return the number at a place between the bounds."""
        domain = self.feature.domain
        assert isinstance(domain, NumberDomain)  # only numbers have places
        return domain.lower + place * (domain.upper - domain.lower)

    def binned(self, n_bins: int) -> "SampleColumn":
        """Return a number as codes of equal-width bins over its bounds."""
        codes = np.minimum((self.values * n_bins).astype(np.int64), n_bins - 1)
        return SampleColumn(self.feature, codes, n_bins)


@dataclass(frozen=True, eq=False)
class Sample:
    """Sensitive features, and the insensitive ones whose leakage is asked.

    Parameters
    ----------
    sensitive, changed : tuple of SampleColumn
        Under ``one_insensitive`` `changed` is one feature, else the whole block.
    """

    sensitive: tuple[SampleColumn, ...]
    changed: tuple[SampleColumn, ...]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        columns = self.sensitive + self.changed
        return len(columns[0].values) if columns else 0

    def rows(self, chosen: NDArray[Any]) -> "Sample":
        """Return the sample restricted to some rows."""

        def part(columns: Sequence[SampleColumn]) -> tuple[SampleColumn, ...]:
            return tuple(
                SampleColumn(c.feature, c.values[chosen], c.n_codes) for c in columns
            )

        return Sample(part(self.sensitive), part(self.changed))


def read_sample(
    frame: Any, policy: Policy, changed: Sequence[str], *, discrete_numbers: bool
) -> Sample:
    """Return the sample of a table.

    Parameters
    ----------
    frame : table
        Any table that the policy's encoder reads.
    policy : Policy
        Domains and roles.
    changed : sequence of str
        Insensitive features whose leakage is asked.
    discrete_numbers : bool
        Whether numbers with declared bins are given as codes of their bins.
    """
    encoder = PolicyEncoder(policy)
    n_codes = encoder.n_codes

    def is_discrete(name: str) -> bool:
        is_number = isinstance(policy.feature(name).domain, NumberDomain)
        return not is_number or (discrete_numbers and name in n_codes)

    names = [*policy.sensitive, *changed]
    discrete = [name for name in names if is_discrete(name)]
    numbers = [name for name in names if not is_discrete(name)]
    check_resolution(policy, discrete)
    for name in numbers:
        if isinstance(policy.feature(name).domain.missing, Slot):
            raise PolicyError(
                f"features.{name} has a slot for missing values, which an estimator of "
                f"numbers cannot place. Declare features.{name}.bins or missing_value."
            )
    values: dict[str, NDArray[Any]] = {}
    if discrete:
        values.update(zip(discrete, encoder.codes(frame, discrete).T, strict=True))
    if numbers:
        matrix = encoder.transform(frame)
        start_of = {block.name: block.start for block in encoder.blocks_}
        values.update({name: matrix[:, start_of[name]] + 0.5 for name in numbers})

    def columns(wanted: Sequence[str]) -> tuple[SampleColumn, ...]:
        return tuple(
            SampleColumn(
                policy.feature(name),
                values[name],
                n_codes[name] if name in discrete else None,
            )
            for name in wanted
        )

    return Sample(columns(policy.sensitive), columns(changed))


def joint_codes(columns: Sequence[SampleColumn]) -> tuple[IntArray, int]:
    """Return the joint code of discrete columns, the last one fastest, and its size."""
    n_rows = len(columns[0].values) if columns else 0
    joint, size = np.zeros(n_rows, dtype=np.int64), 1
    for column in columns:
        joint = joint * (column.n_codes or 1) + column.values
        size *= column.n_codes or 1
    return joint, size
