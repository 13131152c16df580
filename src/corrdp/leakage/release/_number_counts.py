"""Where numbers lie: noisy counts of the bins of each number by itself.

Theory: ``docs/theory/default_rule.md``, section 7.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from corrdp._random import noise_generator
from corrdp._typing import FloatArray, IntArray
from corrdp.accounting import Group, SensitivityTable
from corrdp.exceptions import GuaranteeVoidError
from corrdp.leakage._coding import counts_of
from corrdp.leakage._counts import ContingencyCounts, CountLayout
from corrdp.leakage.release._noise import count_sensitivity, noisy_counts
from corrdp.policy import (
    ColumnRole,
    NeighborClass,
    NumberDomain,
    Policy,
    PolicyEncoder,
)


def number_count_sensitivity(
    names: Sequence[str], classes: Sequence[NeighborClass]
) -> SensitivityTable:
    r"""Return how far counts of bins move under each neighbor class.

    Parameters
    ----------
    names : sequence of str
        Numbers, each counted by itself.
    classes : sequence of NeighborClass
        Classes of the policy, ``whole_record`` included.

    Guarantee
    ---------
    Replacing a record moves two bins of a number by one each, :math:`\sqrt 2`, if the
    class may change the number, else none (``docs/theory/default_rule.md``,
    Proposition 5).
    """
    return count_sensitivity({Group(n, 1, (n,)): (n,) for n in names}, classes)


def release_number_counts(
    data: Any,
    policy: Policy,
    noise_scale: Mapping[str, float],
    *,
    n_bins: Mapping[str, int],
    random_state: int | None = None,
) -> dict[str, FloatArray]:
    """Return noisy counts of equal bins between the declared bounds, by number.

    Parameters
    ----------
    data : table, source of rows, or partitions of an engine
        Private rows.
    policy : Policy
        Declares the bounds.
    noise_scale : mapping of str to float
        Standard deviation of the noise on the counts of every number; 0 for numbers
        that are public, which no class moves.
    n_bins : mapping of str to int
        Bins of every number; missing values, if they have a slot, are not counted.
    random_state : int, optional
        Seed, for research.

    Guarantee
    ---------
    That of the noise scales: an allocation for `number_count_sensitivity` keeps every
    class within its mu (``docs/theory/default_rule.md``, Proposition 5); noise is
    drawn by an exact sampler (``docs/theory/discrete_noise.md``, Claim 5). Public
    numbers are equal on neighbors of every class, and so are their counts.
    """
    _refuse_exact_counts(policy, noise_scale)
    generator = noise_generator(random_state, purpose="bounds of numbers")
    view, layout = number_layout(policy, n_bins)
    exact = bins_of(counts_of(data, view, layout), n_bins)
    return noisy_number_counts(exact, noise_scale, generator)


def number_layout(
    policy: Policy, n_bins: Mapping[str, int]
) -> tuple[Policy, CountLayout]:
    """Return the policy with the bins that are counted, and what is counted by it."""
    view = replace(
        policy,
        features=tuple(
            replace(feature, domain=replace(feature.domain, bins=n_bins[feature.name]))
            if feature.name in n_bins and isinstance(feature.domain, NumberDomain)
            else feature
            for feature in policy.features
        ),
    )
    n_codes = PolicyEncoder(view).n_codes
    layout = CountLayout(
        n_codes={name: n_codes[name] for name in n_bins},
        sensitive=(),
        targets={name: (name,) for name in n_bins},
    )
    return view, layout


def bins_of(
    counts: ContingencyCounts, n_bins: Mapping[str, int]
) -> dict[str, IntArray]:
    """Return the counts of bins by number; rows without a value are in none."""
    return {
        shape.name: table[: n_bins[shape.name], 0]
        for shape, table in zip(counts.layout.shapes, counts.tables, strict=True)
    }


def noisy_number_counts(
    exact: Mapping[str, IntArray],
    noise_scale: Mapping[str, float],
    generator: np.random.Generator,
) -> dict[str, FloatArray]:
    """Return counts with noise, number by number; repeated counts are stacked before.

    Guarantee
    ---------
    As `release_number_counts` states it (``docs/theory/default_rule.md``,
    Proposition 5), if its noise is planned for the classes.
    """
    return {
        name: (
            noisy_counts(counts, noise_scale[name], generator)[0]
            if noise_scale[name] > 0.0
            else counts.astype(np.float64)
        )
        for name, counts in exact.items()
    }


def _refuse_exact_counts(policy: Policy, noise_scale: Mapping[str, float]) -> None:
    """Raise if a number that some class moves would be counted without noise."""
    exact = [name for name, scale in noise_scale.items() if not scale > 0.0]
    moved = [n for n in exact if policy.feature(n).role is not ColumnRole.PUBLIC]
    if moved:
        raise GuaranteeVoidError(
            f"counts of {moved[0]!r} have no noise (noise_scale="
            f"{noise_scale[moved[0]]!r}), and the column is not public. Plan some "
            "noise."
        )
