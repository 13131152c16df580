"""Audit of leakage: is what a column gives away really no more than was declared."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import permutations

import numpy as np

from corrdp._typing import IntArray, JSONObject
from corrdp._validate import check_real
from corrdp.auditing.statistics import clopper_pearson
from corrdp.exceptions import CorrDPError


@dataclass(frozen=True)
class LeakageAudit:
    """A lower bound on the leakage of one column against what was declared.

    Parameters
    ----------
    feature : str
        The insensitive feature.
    declared : float
        Leakage that policy or plan assume.
    audited : float
        Lower bound on the total variation distance.
    confidence : float
        Probability with which the lower bound holds.
    """

    feature: str
    declared: float
    audited: float
    confidence: float

    @property
    def is_understated(self) -> bool:
        """Whether the declared leakage is contradicted."""
        return self.audited > self.declared

    def to_json(self) -> JSONObject:
        """Return a JSON-able description."""
        return asdict(self) | {"is_understated": self.is_understated}


def audit_leakage(
    sensitive: IntArray,
    column: IntArray,
    *,
    feature: str,
    declared: float,
    confidence: float = 0.99,
) -> LeakageAudit:
    """Bound from below what one column tells about the sensitive features.

    Parameters
    ----------
    sensitive : array of int, shape (n_rows,) or (n_rows, n_sensitive)
        Discrete codes of the sensitive features (`PolicyEncoder.codes`).
    column : array of int, shape (n_rows,)
        Discrete codes of the insensitive feature.
    feature : str
        Its name.
    declared : float
        The leakage that is to be tested.
    confidence : float
        Probability with which the lower bound holds.

    Returns
    -------
    result : LeakageAudit

    Guarantee
    ---------
    If rows are independent draws, the lower bound holds with probability `confidence`:
    the two values of the column and the event of the sensitive features are chosen on
    half of the rows, and their probabilities bounded on the other half
    (`docs/theory/audit.md`). The result is computed from the rows without noise: use it
    on public or synthetic rows only.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> column = rng.integers(2, size=4000)
    >>> sensitive = np.where(rng.random(4000) < 0.5, column, rng.integers(2, size=4000))
    >>> audit_leakage(sensitive, column, feature="u", declared=0.1).is_understated
    True
    """
    check_real("declared", declared, lower=0.0, upper=1.0)
    if len(sensitive) != len(column):
        raise CorrDPError(
            f"sensitive has {len(sensitive)} rows, column {len(column)}. Pass codes of "
            "the same rows."
        )
    codes = np.asarray(sensitive).reshape(len(column), -1)
    cells = np.unique(codes, axis=0, return_inverse=True)[1].ravel()
    half = len(column) // 2
    if half == 0:
        raise CorrDPError("the audit of leakage needs at least two rows. Pass more.")
    pair, event = _chosen(cells[:half], column[:half])
    inside = np.isin(cells[half:], event)
    each = (1.0 - confidence) / 2.0
    bounds = []
    for value in pair:
        rows = column[half:] == value
        hits, count = int(inside[rows].sum()), int(rows.sum())
        bounds.append(clopper_pearson(hits, count, failure_probability=each))
    audited = max(0.0, float(bounds[1][0] - bounds[0][1]))
    return LeakageAudit(feature, declared, audited, confidence)


def _chosen(
    cells: IntArray, column: IntArray
) -> tuple[tuple[int, int], Sequence[int] | IntArray]:
    """Return two values of the column and the cells likelier under the second."""
    values, owner, sizes = np.unique(column, return_inverse=True, return_counts=True)
    counts = np.zeros((values.size, int(cells.max()) + 1))
    np.add.at(counts, (owner.ravel(), cells), 1.0)
    shares = counts / sizes[:, None]
    # what a difference of shares must exceed to be more than chance
    chance = 1.0 / np.sqrt(sizes)
    best, pair = -np.inf, (0, 0)
    for first, second in permutations(range(values.size), 2):
        gain = np.maximum(shares[second] - shares[first], 0.0).sum()
        gain -= chance[first] + chance[second]
        if gain > best:
            best, pair = float(gain), (first, second)
    event = np.flatnonzero(shares[pair[1]] > shares[pair[0]])
    return (int(values[pair[0]]), int(values[pair[1]])), event
