"""Leakage in the full sense of Definition 2.5: any set of features may be known.

Conditioning on other features, sensitive ones included, can raise what a feature
tells: with ``S_1`` rare and ``S_2 = u`` where it holds, the marginal leakage is small
and the definition gives 1 (E9).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp._validate import check_failure_probability
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.leakage._two_samples import LargestUpper, plug_in_distances
from corrdp.policy import Conditioning

MAX_SETS = 4096
"""Sets of known features that are searched."""

MAX_JOINT_CELLS = 2**20
"""Cells of the joint table of all features."""


MAX_PAIRS = 2**25
"""Pairs of values that are compared, beside all sets of known features."""


@dataclass(frozen=True)
class Extreme:
    """The largest distance between observed conditional distributions, and where."""

    estimate: float
    upper: float  # 1 if some combination has no rows
    known: tuple[int, ...]  # axes besides the changed ones, where it is attained
    unseen: int  # most combinations of values without rows, under any one set


def exact_leakage(
    joint: FloatArray,
    *,
    sensitive: Sequence[int],
    changed: Sequence[int],
    conditioning: Conditioning = Conditioning.MARGINAL,
) -> float:
    """Return the leakage of a known joint distribution, in total variation.

    Parameters
    ----------
    joint : array of float
        Probabilities; one axis per feature.
    sensitive : sequence of int
        Axes of the sensitive features.
    changed : sequence of int
        Axes of the insensitive features that change together.
    conditioning : Conditioning
        ``marginal``: given the changed features alone. ``definition``: the largest
        over all sets of known features (Definition 2.5).

    Guarantee
    ---------
    Exact for values of positive probability: no sampling, no bound
    (docs/theory/leakage.md). With ``definition`` every set of at most `MAX_SETS` is
    visited, larger problems are refused.

    Examples
    --------
    The exclusive or of E9: nothing from one feature, everything from both.

    >>> import numpy as np
    >>> joint = np.zeros((2, 2, 2))  # S, U_1, U_2
    >>> for a in (0, 1):
    ...     for b in (0, 1):
    ...         joint[a ^ b, a, b] = 0.25
    >>> exact_leakage(joint, sensitive=[0], changed=[1])
    0.0
    >>> exact_leakage(joint, sensitive=[0], changed=[1], conditioning="definition")
    1.0
    """
    probabilities = np.asarray(joint, dtype=np.float64)
    if probabilities.min() < 0 or abs(probabilities.sum() - 1) > 1e-9:
        raise CorrDPError(
            f"joint must hold probabilities, got a sum of {probabilities.sum():.12g}. "
            "Divide counts by their total."
        )
    whole: tuple[tuple[int, ...], tuple[int, ...]] = (tuple(changed), ())
    searched = iter([whole])
    if Conditioning(conditioning) is Conditioning.DEFINITION:
        searched = _searched(probabilities.shape, sensitive, changed)
    largest = 0.0
    for compared, known in searched:
        table = _laid_out(probabilities, sensitive, compared, known)
        for first, second in _pairs(table):
            largest = max(largest, float(plug_in_distances(first, second).max()))
    return min(largest, 1.0)


def definition_leakage(
    counts: NDArray[np.int64],
    *,
    sensitive: Sequence[int],
    changed: Sequence[int],
    failure_probability: float,
) -> Extreme:
    """Return the largest leakage over all sets of known features, from counts.

    Parameters
    ----------
    counts : array of int
        Joint counts; one axis per feature.
    sensitive, changed : sequence of int
        Axes of the sensitive features and of those that change.
    failure_probability : float
        Probability with which `upper` may be too small.

    Guarantee
    ---------
    Rows independent: `upper` holds except with `failure_probability`. The set, the
    known values and the pair that attain the true maximum are fixed, so no union is
    paid, and the limits of that pair are exact (docs/theory/leakage.md, Theorem 1,
    Corollary).
    """
    bound = LargestUpper(check_failure_probability(failure_probability))
    where: tuple[int, ...] = ()
    estimate, unseen = 0.0, 0
    for compared, known in _searched(counts.shape, sensitive, changed):
        table = _laid_out(counts, sensitive, compared, known)
        empty = int(np.count_nonzero(table.sum(axis=2) == 0))
        unseen = max(unseen, empty if table.shape[1] > 1 else 0)
        for first, second in _pairs(table):
            distance = float(plug_in_distances(first, second).max())
            if distance > estimate:
                estimate, where = distance, known
            if not unseen:  # else the bound is 1
                bound.offer(first, second)
    upper = 1.0 if unseen else bound.upper()
    return Extreme(min(estimate, 1.0), upper, where, unseen)


def check_definition_size(n_codes: Sequence[int], changed: Sequence[int] = ()) -> None:
    """Refuse joint tables and searches beyond the stated size.

    `changed` are the axes of features that change together: all their values are
    compared in pairs, beside every set of the others.
    """
    n_cells, n_sets = math.prod(n_codes), 2 ** len(n_codes)
    if n_cells > MAX_JOINT_CELLS or n_sets > MAX_SETS:
        raise PolicyError(
            f"conditioning='definition' searches {n_sets:,} sets of known features "
            f"over {n_cells:,} joint cells; the limits are {MAX_SETS:,} and "
            f"{MAX_JOINT_CELLS:,}. Declare fewer bins, merge categories by groups, or "
            "use conditioning='marginal', which the certificate then states."
        )
    n_pairs = 2 ** (len(n_codes) - len(changed)) * (
        math.prod(1 + n_codes[axis] ** 2 for axis in changed) // 2
    )
    if n_pairs > MAX_PAIRS:
        raise PolicyError(
            f"conditioning='definition' compares about {n_pairs:,} pairs of values of "
            f"the {len(changed)} features that change together; the limit is "
            f"{MAX_PAIRS:,}. Declare fewer bins, merge categories by groups, or use "
            "relation='one_insensitive' or conditioning='marginal'."
        )


def _searched(
    shape: Sequence[int], sensitive: Sequence[int], changed: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Yield the sets of Definition 2.5, split into changed and unchanged features."""
    check_definition_size(shape, changed)
    others = [axis for axis in range(len(shape)) if axis not in changed]
    for known in _subsets(others):
        if set(sensitive) <= set(known):
            continue  # all of S known: nothing left to tell
        for compared in _subsets(changed):
            if compared:
                yield compared, known


def _subsets(axes: Sequence[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(axes, k) for k in range(len(axes) + 1))


def _laid_out(
    joint: NDArray[Any],
    sensitive: Sequence[int],
    compared: tuple[int, ...],
    known: tuple[int, ...],
) -> NDArray[Any]:
    """Return the joint table as (known values, compared values, what they tell of)."""
    told = [axis for axis in sensitive if axis not in known]
    kept = [*known, *compared, *told]
    dropped = tuple(axis for axis in range(joint.ndim) if axis not in kept)
    order = np.argsort(np.argsort(kept))
    table: NDArray[Any] = joint.sum(axis=dropped).transpose(order)
    sizes = joint.shape
    return table.reshape(
        math.prod(sizes[a] for a in known),
        math.prod(sizes[a] for a in compared),
        math.prod(sizes[a] for a in told),
    )


def _pairs(table: NDArray[Any]) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield two values of what is compared, wherever both occur with what is known."""
    seen = table.sum(axis=2) > 0
    for first, second in combinations(range(table.shape[1]), 2):
        both = seen[:, first] & seen[:, second]
        if both.any():
            yield table[both, first], table[both, second]
