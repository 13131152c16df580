"""The simplest policy: a numeric table, all columns sensitive, one pair of bounds."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

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
            classes = np.unique(y).tolist()
            if len(classes) < 2:
                raise CorrDPError(
                    "y holds one class; a classifier needs samples of 2 classes. "
                    "Declare a policy whose label has them, or pass more."
                )
            domain = CategoryDomain(tuple(classes))
        return Policy(features, Label("y", domain, score=0.0))


def checked_numbers(model: Any, *rows: Any, numeric: bool | None = None) -> Any:
    """Return rows as scikit-learn checks them, and withhold the values that it quotes.

    Labels are numbers if `numeric`, classes if not; None for rows without labels.
    numpy quotes a text, scikit-learn prints the array below the first line of what it
    says, and labels of two types behind it; names of columns, which it prints there
    too, are no values, nor are types of cells.
    """
    try:
        if numeric is None:
            return validate_data(model, *rows, dtype="numeric", reset=False)
        X, y = validate_data(model, *rows, dtype="numeric", y_numeric=numeric)
        if np.asarray(y).dtype.kind in "mM":
            raise TypeError("y holds times, which are neither numbers nor classes")
        if numeric:
            return X, np.asarray(y, dtype=np.float64)
        check_classification_targets(y)
        return X, y
    except (ValueError, TypeError, OverflowError) as error:
        told = str(error)
        if told.startswith(("The feature names", "float() argument must be")):
            raise
    # Outside of the block, so that no traceback carries the other error.
    told = told.partition("\n")[0]
    told = told.partition("; Got")[0]
    if "could not convert" in told:
        told = "X or y holds text, and AllSensitive takes numbers"
    if told.startswith("Expected 2D array"):
        told = "Expected 2D array. Reshape your data"
    raise CorrDPError(
        f"{told.rstrip('.')}. Pass numbers, a row per record, or declare the columns "
        "in a Policy."
    )
