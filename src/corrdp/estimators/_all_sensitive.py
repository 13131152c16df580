"""The simplest policy: a numeric table, all columns sensitive, one pair of bounds."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp.exceptions import CorrDPError
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


@contextmanager
def no_values_in_messages() -> Iterator[None]:
    """Withhold the value that numpy quotes when text is not a number."""
    try:
        yield
    except ValueError as error:
        if "could not convert" not in str(error):
            raise
        raise CorrDPError(
            "X holds text that is not a number, and AllSensitive takes numbers only. "
            "Declare the columns in a Policy."
        ) from None
