"""Linear models on a box: bounds that follow from it, and those that are printed."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from corrdp._typing import FloatArray
from corrdp._validate import check_choice, check_count, check_real
from corrdp.exceptions import CorrDPError
from corrdp.theory._checks import check_positive, check_vector

LossKind: TypeAlias = Literal["least_squares", "logistic"]


@dataclass(frozen=True, kw_only=True, eq=False)
class BoxModel:
    r"""A linear model whose columns, coefficients and label are bounded.

    Gradients are :math:`r(\theta^\top x, y)\, x` with :math:`r = 2 (z - y)` for least
    squares and :math:`r = 1 / (1 + e^{-z}) - y` for logistic regression (Examples 3.5
    and 3.6). The examples need a bound on each coefficient, as projecting per block
    gives; a radius does not imply it (E7).
    """

    loss: LossKind
    lower: ArrayLike  # declared bounds of the columns, shape (n_columns,)
    upper: ArrayLike
    parameter_radius: float  # D, of the 2-norm of the coefficients
    coefficient_bound: ArrayLike | None = None  # of each, shape (n_columns,)
    label_bound: float | None = None  # of least squares; else labels are 0 and 1

    def __post_init__(self) -> None:
        losses = ("least_squares", "logistic")
        remedy = "Other losses have no example in the paper."
        check_choice("loss", self.loss, losses, remedy=remedy)
        if (self.loss == "least_squares") != (self.label_bound is not None):
            raise CorrDPError(
                "label_bound must be given for least squares and left out for logistic "
                f"regression, got label_bound={self.label_bound!r} with "
                f"loss={self.loss!r}. Declare the label's bound."
            )
        if self.label_bound is not None:
            check_positive("label_bound", self.label_bound)
        check_positive("parameter_radius", self.parameter_radius)
        lower = check_vector("lower", self.lower)
        upper = check_vector("upper", self.upper, size=lower.size)
        if np.any(lower >= upper):
            where = int(np.argmax(lower >= upper))
            raise CorrDPError(
                f"lower must be below upper, got {lower[where]:g} and "
                f"{upper[where]:g} at column {where}. Swap or widen the bounds."
            )
        if self.coefficient_bound is not None:
            given = check_vector(
                "coefficient_bound", self.coefficient_bound, size=lower.size
            )
            if np.any(given <= 0.0):
                raise CorrDPError(
                    f"coefficient_bound must be positive, got {given.min():g}. "
                    "Drop columns whose coefficient is fixed at zero."
                )

    @cached_property
    def box(self) -> tuple[FloatArray, FloatArray]:
        """Bounds of the columns as arrays, each of shape (n_columns,)."""
        return np.asarray(self.lower, np.float64), np.asarray(self.upper, np.float64)

    @cached_property
    def column_bound(self) -> FloatArray:
        """Largest absolute value of each column, shape (n_columns,)."""
        largest: FloatArray = np.abs(np.stack(self.box)).max(axis=0)
        return largest

    @cached_property
    def coefficient_upper(self) -> FloatArray:
        """Largest absolute value of each coefficient, shape (n_columns,)."""
        given = np.inf if self.coefficient_bound is None else self.coefficient_bound
        radius = np.full(self.n_columns, self.parameter_radius)
        smaller: FloatArray = np.minimum(radius, given)
        return smaller

    @property
    def label_range(self) -> tuple[float, float]:
        """Smallest and largest label."""
        if self.label_bound is None:
            return 0.0, 1.0
        return -self.label_bound, self.label_bound

    @property
    def n_columns(self) -> int:
        """Number m of columns."""
        return self.box[0].size

    @property
    def width(self) -> FloatArray:
        """Width of each column's range, shape (n_columns,)."""
        return self.box[1] - self.box[0]

    @property
    def feature_bound(self) -> float:
        """Bound B on the 2-norm of a row."""
        return float(np.linalg.norm(self.column_bound))

    @property
    def prediction_bound(self) -> float:
        """Bound on the absolute value of the linear predictor."""
        by_norm = self.parameter_radius * self.feature_bound
        return min(by_norm, float(self.coefficient_upper @ self.column_bound))

    @property
    def residual_bound(self) -> float:
        """Bound on the absolute value of r."""
        if self.loss == "logistic":
            return 1 / (1 + math.exp(-self.prediction_bound))
        return 2 * (self.prediction_bound + self.label_range[1])

    @property
    def residual_slope(self) -> float:
        """Bound on the derivative of r in the linear predictor."""
        return 0.25 if self.loss == "logistic" else 2.0

    @property
    def lipschitz(self) -> float:
        """Bound L on the 2-norm of one record's gradient (Assumption 3.2)."""
        return self.residual_bound * self.feature_bound

    def gradient(self, coef: FloatArray, rows: FloatArray, y: FloatArray) -> FloatArray:
        """Return the gradient of each record at a coefficient vector of its own.

        Coefficients, rows and gradients have shape (n_candidates, n_columns).
        """
        predictor = np.einsum("ij,ij->i", coef, rows)
        if self.loss == "logistic":
            residual = 0.5 * (1 + np.tanh(predictor / 2)) - y
        else:
            residual = 2 * (predictor - y)
        gradients: FloatArray = residual[:, np.newaxis] * rows
        return gradients


@dataclass(frozen=True, kw_only=True)
class GradientConstants:
    """Constants with which Assumption 3.4 and its relaxed form hold."""

    lipschitz: float  # L
    direct: float  # C_1, the weight of the coordinate's own column
    cross: float  # C_2, the weight of the others, before division by m
    relaxed: float  # C of Assumption C.2, which counts changed columns


def gradient_constants(model: BoxModel) -> GradientConstants:
    r"""Return constants with which Assumptions 3.4 and C.2 are proved to hold.

    From :math:`|g_i - g_i'| \le R |\Delta_i| + \kappa X_i \sum_j c_j |\Delta_j|`, with
    residual bound R, residual slope kappa, column bound X and coefficient bound c.

    Guarantee
    ---------
    Proved for every pair of rows in the box and every allowed coefficient vector:
    `docs/theory/paper_bounds.md`. With a radius only, `cross` grows with the number of
    columns, so it is no constant (E7).
    """
    bound, largest, width = model.column_bound, model.coefficient_upper, model.width
    reach = model.residual_slope * np.outer(bound, largest)  # kappa X_i c_j
    direct = model.residual_bound + np.diag(reach)
    cross = reach - np.diag(np.diag(reach))
    # A coordinate never moves by more than both gradients together.
    own_change = np.minimum(direct * width, 2 * model.residual_bound * bound)
    cross_change = model.n_columns * (cross * width).max()
    return GradientConstants(
        lipschitz=model.lipschitz,
        direct=float(direct.max()) / model.lipschitz,
        cross=model.n_columns * float(cross.max()) / model.lipschitz,
        relaxed=float(max(own_change.max(), cross_change)) / model.lipschitz,
    )


def printed_least_squares_constants(
    *,
    feature_bound: float,
    parameter_radius: float,
    label_bound: float,
    n_columns: int,
    spread_constant: float,
) -> GradientConstants:
    r"""Return the constants of Example 3.5.

    :math:`L = 2 B (D + \max |y|)`, :math:`C_1 = 4 B + 2 C D / m`, :math:`C_2 = 2 C D`,
    with C in :math:`B |\theta_i| \le C D / m`; `relaxed` is the larger of C_1 and C_2.

    Guarantee
    ---------
    None: L holds for B at most 1 only, where :math:`|\theta^\top x| \le D`. Use
    `gradient_constants`. Note: `docs/theory/paper_bounds.md`.
    """
    bound = check_positive("feature_bound", feature_bound)
    radius = check_positive("parameter_radius", parameter_radius)
    label = check_real("label_bound", label_bound, lower=0.0)
    spread = check_positive("spread_constant", spread_constant)
    columns = check_count("n_columns", n_columns)
    direct = 4 * bound + 2 * spread * radius / columns
    cross = 2 * spread * radius
    return GradientConstants(
        lipschitz=2 * bound * (radius + label),
        direct=direct,
        cross=cross,
        relaxed=max(direct, cross),
    )


def printed_logistic_constants(
    *,
    feature_bound: float,
    parameter_radius: float,
    n_columns: int,
    spread_constant: float,
) -> GradientConstants:
    r"""Return the constants of Example 3.6.

    :math:`C_1 = 2 + C D / (4 m)`, :math:`C_2 = C D / 4`; L = B, which the paper does
    not print but :math:`|\sigma - y| \le 1` gives. Otherwise as in
    `printed_least_squares_constants`.

    Guarantee
    ---------
    None without the condition on every coefficient. Use `gradient_constants`. Note:
    `docs/theory/paper_bounds.md`.
    """
    bound = check_positive("feature_bound", feature_bound)
    radius = check_positive("parameter_radius", parameter_radius)
    spread = check_positive("spread_constant", spread_constant)
    columns = check_count("n_columns", n_columns)
    direct = 2 + spread * radius / (4 * columns)
    cross = spread * radius / 4
    return GradientConstants(
        lipschitz=bound, direct=direct, cross=cross, relaxed=max(direct, cross)
    )
