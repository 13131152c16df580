"""How far whole-numbered statistics move under each neighbor class."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from corrdp._typing import IntArray
from corrdp._validate import check_nonnegative_array
from corrdp.accounting import WHOLE_RECORD, Group
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.policy import Policy, class_columns

LARGEST_MOVEMENT = 2**30


@dataclass(frozen=True, eq=False)
class Movement:
    """Exact bounds, in grid steps, on how far groups of whole numbers move.

    Parameters
    ----------
    groups : tuple of Group
        Coordinates that share one noise scale.
    classes : tuple of str
        Neighbor classes, ``whole_record`` among them; one row each.
    absolute : array of int, shape (n_classes, n_groups)
        Bound on the 1-norm.
    squared : array of int, shape (n_classes, n_groups)
        Bound on the squared 2-norm.
    units : tuple of int, optional
        Grid steps in one unit of each group, one by default. Variants with one scale
        use the same scale in these units.
    """

    groups: tuple[Group, ...]
    classes: tuple[str, ...]
    absolute: IntArray
    squared: IntArray
    units: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        shape = (len(self.classes), len(self.groups))
        for name, power in (("absolute", 1), ("squared", 2)):
            values = check_nonnegative_array(
                name, getattr(self, name), ndim=2, error=GuaranteeVoidError
            )
            if values.shape != shape or np.any(values != np.floor(values)):
                raise CorrDPError(
                    f"{name} must hold whole numbers of grid steps in shape (classes, "
                    f"groups) = {shape}, got shape {values.shape}. Round them up."
                )
            # Before they are made integers: beyond 2**63 a float becomes a negative
            # one, which would count as no movement.
            largest = values.max(initial=0.0)
            if largest > LARGEST_MOVEMENT**power:
                raise CorrDPError(
                    f"{name} movements must be at most 2**{30 * power} grid steps, got "
                    f"{largest:.0f}. Declare a coarser grid."
                )
            # Squares may need more digits than a float has: keep integers as they are.
            object.__setattr__(
                self, name, np.array(getattr(self, name), dtype=np.int64)
            )
        units = self.units or (1,) * len(self.groups)
        if len(units) != len(self.groups) or min(units, default=1) < 1:
            raise CorrDPError(
                f"units must be one positive whole number per group, got {units}. "
                "Leave them out if groups have the same unit."
            )
        object.__setattr__(self, "units", tuple(units))
        if len(set(self.classes)) != len(self.classes):
            raise CorrDPError(
                f"classes must differ, got {list(self.classes)}. Give one row each."
            )
        if WHOLE_RECORD not in self.classes:
            raise CorrDPError(
                f"classes must contain {WHOLE_RECORD!r}, got {list(self.classes)}. "
                "Bound a change of the whole record."
            )

    @classmethod
    def of_coordinates(
        cls,
        sensitivity: Mapping[str, Sequence[float]],
        *,
        grid: float,
        names: Sequence[str] | None = None,
        weights: Sequence[float] | None = None,
    ) -> "Movement":
        """Bound a vector of real numbers that will be rounded to a grid.

        Parameters
        ----------
        sensitivity : mapping of str to sequence of float
            Per neighbor class, how far each coordinate moves at most.
        grid : float
            The step to which the vector is rounded, a power of two.
        names : sequence of str, optional
            Names of the coordinates.
        weights : sequence of float, optional
            Cost of a unit of variance of each coordinate.

        Guarantee
        ---------
        A coordinate that moves by at most ``s`` moves by at most ``ceil(s / grid)``
        steps after rounding: rounding half up is monotone and commutes with whole
        steps (`docs/theory/discrete_noise.md`).
        """
        check_grid(grid)
        rows = {
            name: check_nonnegative_array(
                f"sensitivity[{name!r}]", values, ndim=1, error=GuaranteeVoidError
            )
            for name, values in sensitivity.items()
        }
        sizes = {row.size for row in rows.values()}
        if len(sizes) != 1:
            raise CorrDPError(
                f"every class needs one sensitivity per coordinate, got lengths "
                f"{sorted(sizes)}. Give all classes the same length."
            )
        n_coordinates = sizes.pop()
        labels = names or [f"coordinate {k}" for k in range(n_coordinates)]
        costs = weights if weights is not None else [1.0] * n_coordinates
        step = Fraction(grid)
        steps = [
            [math.ceil(Fraction(float(bound)) / step) for bound in row]
            for row in rows.values()
        ]
        largest = max((max(row, default=0) for row in steps), default=0)
        if largest > LARGEST_MOVEMENT:
            raise CorrDPError(
                f"sensitivities must be at most 2**30 grid steps, got "
                f"{largest}. Declare a coarser grid."
            )
        absolute = np.array(steps, dtype=np.int64).reshape(len(rows), n_coordinates)
        return cls(
            tuple(
                Group(label, 1, (), float(cost))
                for label, cost in zip(labels, costs, strict=True)
            ),
            tuple(rows),
            absolute,
            absolute**2,
        )

    @classmethod
    def of_features(
        cls,
        policy: Policy,
        sensitivity: Mapping[str, float],
        *,
        grid: float,
        weights: Sequence[float] | None = None,
    ) -> "Movement":
        """Bound a vector whose every coordinate reads one column alone.

        Parameters
        ----------
        policy : Policy
            Names the neighbor classes.
        sensitivity : mapping of str to float
            Per column of the policy, how far its coordinate moves at most.
        grid, weights
            As in `of_coordinates`.

        Guarantee
        ---------
        A coordinate moves only under classes that may change its column: the setting
        of Definition 2.9 of the paper (`docs/theory/laplace.md`).
        """
        label = () if policy.label is None else (policy.label.name,)
        for name in sensitivity:
            if name not in label:
                policy.feature(name)
        rows = {}
        for class_name, changed in class_columns(policy).items():
            rows[class_name] = [
                bound if name in changed else 0.0 for name, bound in sensitivity.items()
            ]
        return cls.of_coordinates(
            rows, grid=grid, names=tuple(sensitivity), weights=weights
        )

    def row(self, class_name: str) -> int:
        """Return the row of a class, or raise."""
        if class_name not in self.classes:
            raise CorrDPError(
                f"the movement bounds have no class {class_name!r}. "
                f"Their classes are: {', '.join(self.classes)}."
            )
        return self.classes.index(class_name)


def check_grid(grid: Any) -> float:
    """Return a grid step that is a power of two, or raise."""
    if not isinstance(grid, int | float) or isinstance(grid, bool):
        grid = math.nan
    if not 0.0 < grid < math.inf or math.frexp(grid)[0] != 0.5:
        raise CorrDPError(
            f"grid must be a power of two, so that rounding to it is exact, got "
            f"grid={grid!r}. Choose for example 2**-10."
        )
    return float(grid)
