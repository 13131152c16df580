"""The simplest policy: a numeric table, all columns sensitive, one pair of bounds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp.policy import (
    CategoryDomain,
    ColumnRole,
    Feature,
    Label,
    NumberDomain,
    Policy,
)


@dataclass(frozen=True)
class AllSensitive:
    """Every column a sensitive number within the same bounds, labels public.

    Parameters
    ----------
    lower, upper : float
        Bounds known without the data; values outside are clipped.

    Guarantee
    ---------
    Ordinary replace-one DP for the features (`docs/theory/neighbors.md`). Labels are
    not protected, so that their set or range may be read from them.
    """

    lower: float = -1.0
    upper: float = 1.0

    def policy(self, n_columns: int, y: NDArray[Any], *, numeric: bool) -> Policy:
        """Return the policy of a table with so many columns and these labels."""
        features = tuple(
            Feature(
                f"x{column}",
                ColumnRole.SENSITIVE,
                NumberDomain(self.lower, self.upper),
            )
            for column in range(n_columns)
        )
        domain: NumberDomain | CategoryDomain
        if numeric:
            low, high = float(np.min(y)), float(np.max(y))
            domain = NumberDomain(low, high if high > low else low + 1.0)
        else:
            domain = CategoryDomain(tuple(np.unique(y).tolist()))
        return Policy(features, Label("y", domain, score=0.0))
