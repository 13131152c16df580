"""The budget, and the share of it that each class of neighbors is promised."""

import warnings
from dataclasses import dataclass

from corrdp._validate import check_count, check_delta, check_epsilon, check_real
from corrdp.exceptions import BudgetError, CorrDPWarning


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The epsilon and delta promised to the sensitive features.

    Parameters
    ----------
    epsilon : float
        Positive and finite.
    delta : float
        In [0, 1); well below one over the number of rows.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))
        object.__setattr__(self, "delta", check_delta(self.delta, allow_zero=True))

    @classmethod
    def chosen(cls, *, epsilon: float | None, delta: float | None) -> "Budget":
        """Return the budget that an estimator was given; there is no default."""
        if epsilon is None or delta is None:
            raise BudgetError(
                f"epsilon={epsilon!r} and delta={delta!r}: a budget is chosen, never "
                "inherited. Pass both, for example epsilon=1.0 and delta=1e-6."
            )
        return cls(epsilon=epsilon, delta=delta)

    def warn_if_large_delta(self, n_rows: int) -> None:
        """Warn if delta allows publishing one row of `n_rows` outright."""
        count = check_count("n_rows", n_rows, error=BudgetError)
        if self.delta >= 1.0 / count:
            warnings.warn(
                f"delta={self.delta:g} is at least 1 / n_rows = {1.0 / count:g}: a "
                "mechanism that publishes one random row satisfies it. Choose a delta "
                "well below, for example a tenth of it.",
                CorrDPWarning,
                stacklevel=2,
            )


def class_epsilon(distance: float, *, epsilon: float, epsilon_cap: float) -> float:
    """Return the epsilon promised to neighbors at a distance.

    Guarantee
    ---------
    ``min(epsilon / distance, max(epsilon, epsilon_cap))``: never above what
    Definition 2.2 of the paper asks for (``epsilon / distance``), so the cap only
    strengthens the promise, and never below `epsilon`. Proof: docs/theory/neighbors.md.

    Examples
    --------
    >>> class_epsilon(0.25, epsilon=1.0, epsilon_cap=10.0)
    4.0
    >>> class_epsilon(0.01, epsilon=1.0, epsilon_cap=10.0)
    10.0
    """
    distance = check_real(
        "distance",
        distance,
        lower=0.0,
        open_lower=True,
        upper=1.0,
        remedy="Apply the policy's distance floor first.",
        error=BudgetError,
    )
    epsilon = check_epsilon(epsilon)
    cap = check_epsilon(epsilon_cap, name="epsilon_cap")
    return min(epsilon / distance, max(epsilon, cap))
