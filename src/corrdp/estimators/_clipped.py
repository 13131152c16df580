"""How many rows lie outside the declared bounds: for research, never for release."""

from typing import Any

import numpy as np

from corrdp.policy import NumberDomain, Policy
from corrdp.tables import number_of, read_columns


def count_clipped_rows(policy: Policy, X: Any) -> int:
    """Return the number of rows with a number outside its declared bounds.

    Guarantee
    ---------
    None: an exact count of private rows (`docs/theory/encoder.md` says what clipping
    does). Estimators compute it in research mode only.
    """
    names = [feature.name for feature in policy.features]
    outside: Any = False
    for feature, column in zip(policy.features, read_columns(X, names), strict=True):
        if isinstance(feature.domain, NumberDomain):
            values = np.asarray([number_of(v) for v in column], dtype=np.float64)
            low, high = feature.domain.lower, feature.domain.upper
            outside = outside | (values < low) | (values > high)
    return int(np.count_nonzero(outside))
