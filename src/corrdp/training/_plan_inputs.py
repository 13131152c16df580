"""What the rules of training may know before a row is read, and what is typical of it.

Numbers that several candidates of a rule ask for are found once.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from corrdp._names import INTERCEPT
from corrdp._typing import FloatArray
from corrdp.accounting import WHOLE_RECORD
from corrdp.policy import Block, BlockKind, ColumnRole
from corrdp.training._budget_split import BudgetSplit
from corrdp.training._expectations import (
    FIRST_BOUND,
    LABEL_DEVIATION,
    TypicalSizes,
    nominal_coef,
    typical_sizes,
)
from corrdp.training._layout import (
    GradientLayout,
    central_reference,
    standardizing_scale,
)
from corrdp.training.losses import Loss
from corrdp.training.sensitivity._gradient import GradientSensitivity

FEATURE_RADIUS = 1.3  # in units of a group's nominal norm
NUMBER_RADIUS = 0.9  # in units of a number's nominal deviation
RESIDUAL_BOUND = 0.36  # for labels of assumed deviation, times the factor of norms
LEAST_SENSITIVE_GAIN = 0.5  # of what all features tell
_CLIP_RANGE = (0.5, 2.0)
_NUMBER_VARIANCE = 1.0 / 3.0
_ONE_HOT_VARIANCE = 2.0 / 3.0


@dataclass(frozen=True, eq=False)
class PlanInputs:
    """What the rule may know.

    Parameters
    ----------
    blocks : tuple of Block
        Blocks of the encoder.
    spending : BudgetSplit
        Neighbor classes and their budgets.
    n_rows : int
        Public number of rows.
    loss : Loss
        The loss; numbers are labels in [-1/2, 1/2].
    leakage : mapping of str to float
        What is known of features that no class names, as under ``semi``; 1 otherwise.
    farther : float
        Factor on where numbers are cut: on the radius of features; if labels are
        numbers, on the largest bound on residuals instead.
    label_deviation : float
        Deviation of numbers that are labels, in units of their range: assumed, or
        that of labels which no class changes (`free_deviation`).
    """

    blocks: tuple[Block, ...]
    spending: BudgetSplit
    n_rows: int
    loss: Loss
    leakage: Mapping[str, float] = field(default_factory=dict)
    farther: float = 1.0
    label_deviation: float = LABEL_DEVIATION

    @cached_property
    def nominal(self) -> TypicalSizes:
        """Typical sizes of the loss."""
        return typical_sizes(self.loss, self.label_deviation)

    @cached_property
    def nominal_coef(self) -> FloatArray:
        """Parameters of typical size."""
        return nominal_coef(self.blocks, self.loss, self.label_deviation)

    @cached_property
    def variance(self) -> dict[str, float]:
        """Nominal variance of every raw feature, after scaling."""
        total: dict[str, float] = {}
        for block in self.blocks:
            number = block.kind is BlockKind.NUMBER and not block.boolean
            own = _NUMBER_VARIANCE if number else _ONE_HOT_VARIANCE
            total[block.feature] = total.get(block.feature, 0.0) + own
        return total

    @cached_property
    def smoothness(self) -> float:
        """Nominal bound on the curvature."""
        return self.nominal.curvature * (1.0 + sum(self.variance.values()))

    @property
    def n_coefficients(self) -> int:
        """Number of coefficients, intercepts among them."""
        return (self.blocks[-1].stop + 1) * self.loss.n_free_outputs

    @cached_property
    def column_scale(self) -> FloatArray:
        """Scales under which columns have comparable deviations."""
        return standardizing_scale(self.blocks)

    @cached_property
    def column_offset(self) -> FloatArray:
        """A central record, scaled: the reference until means are released."""
        return central_reference(self.blocks) * self.column_scale

    def clip_norm(self, norm: float) -> float:
        """Return the clipping norm of a gradient with features of nominal `norm`."""
        return self._tightness / 0.35 * self.nominal.residual * norm

    @cached_property
    def _tightness(self) -> float:
        least = self.spending.smallest_mu
        noise = 2 * math.sqrt(self.n_coefficients) / (self.n_rows * least)
        return float(np.clip(0.2 * noise**-0.25, *_CLIP_RANGE))

    @cached_property
    def first_loss(self) -> Loss:
        """The loss with the residual bound that training begins with, if it adapts."""
        if not self.loss.adapts_residual_bound:
            return self.loss
        return self.loss.bounded_by(FIRST_BOUND * self.label_deviation)

    @cached_property
    def bounded_loss(self) -> Loss:
        """The loss with residuals bounded as noise asks for, alike in all groups.

        One bound weighs a record alike everywhere: steps minimize a Huber loss.
        """
        return self.first_loss.bounded_by(self.largest_residual)

    @property
    def largest_residual(self) -> float:
        """Where residuals of numbers are cut at the latest: the more noise, the lower.

        A gradient of nominal features is as long then as a clipping norm would allow.
        """
        scale = self.label_deviation / LABEL_DEVIATION
        return self.farther * RESIDUAL_BOUND * scale * self._tightness

    @cached_property
    def gain(self) -> float:
        """Excess risk of the best constant on these rows, nominally."""
        return self.nominal.gain + self.own_gain

    @cached_property
    def own_gain(self) -> float:
        """What coefficients explain on their own rows, whatever features mean."""
        return self.n_coefficients * self.nominal.coefficient_risk / self.n_rows

    @cached_property
    def column_curvature(self) -> float:
        """Nominal curvature of the loss along one column."""
        variance = sum(self.variance.values()) / self.blocks[-1].stop
        return self.nominal.curvature * variance

    def radius(self, features: Sequence[str]) -> float:
        """Return the radius on which the features of a group are projected.

        Noise is in proportion to it. A number that is cut at 0.9 deviations keeps
        its sign and most of its covariance; the codes of a category lie on a sphere.
        """
        if self.bounds_residuals:
            return FEATURE_RADIUS * self.norm(features)
        squares = [
            self.variance[f]
            * (self.farther * NUMBER_RADIUS if f in self._numbers else FEATURE_RADIUS)
            ** 2
            for f in features
        ]
        return math.sqrt(sum(squares))

    def group_radii(self, *, joint: bool) -> Mapping[str, float]:
        """Return the radius of every group of features, by role, by name."""
        return self._group_radii[joint]

    @cached_property
    def _group_radii(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        layouts = (
            GradientLayout.by_role(
                self.blocks, joint_insensitive=joint, joint_public=joint
            )
            for joint in (False, True)
        )
        apart, together = (
            {
                group.name: self.radius(group.features)
                for group in layout.groups
                if group.name != INTERCEPT
            }
            for layout in layouts
        )
        return apart, together

    @property
    def bounds_residuals(self) -> bool:
        """Whether residuals need a bound: those of probabilities have one."""
        return self.loss.clips_residuals_at is not None

    @cached_property
    def _numbers(self) -> frozenset[str]:
        return frozenset(
            block.feature
            for block in self.blocks
            if block.kind is BlockKind.NUMBER and not block.boolean
        )

    def norm(self, features: Sequence[str]) -> float:
        """Return the nominal norm of the features of a group; 1 for an intercept."""
        return math.sqrt(
            sum(1.0 if f == INTERCEPT else self.variance[f] for f in features)
        )

    def influence_bias(self, influence: float) -> float:
        """Return what bounding the influence of sensitive features costs, nominally.

        The residual that the bound sees is normal with the sensitive features' share of
        the variance; what the bound cuts off is correlated with the other features as
        far as their leakage says. Of other features nothing is known, so theirs is 1.
        """
        share = self.sensitive_share
        if math.isinf(influence) or not self._hidden or share == 0:
            return 0.0
        x = influence / math.sqrt(share)
        density = math.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
        cut = density - x * float(ndtr(-x))
        weight = self._hidden_leakage
        return self.nominal.influence_bias * share * weight * 2 * math.pi * cut**2

    @property
    def sensitive_gain(self) -> float:
        """What sensitive features tell, nominally: at least half of what all do.

        They are what a model is about more often than their number says.
        """
        return self.nominal.gain * max(self.sensitive_share, LEAST_SENSITIVE_GAIN)

    @property
    def apart_cost(self) -> float:
        """What it costs to learn sensitive features after all others, nominally.

        With a part q of their variance explained by the others, these take a part q of
        what sensitive ones tell, and leave a part q (1 - q) of it untold. Others that
        each explain a little may explain much together.
        """
        distance = self._distances()
        squares = sum(distance.get(u, 1.0) ** 2 for u in self._hidden)
        explained = min(squares, 0.5)
        told = self.nominal.gain * self.sensitive_share
        return told * explained * (1.0 - explained)

    @property
    def sampling_deviation(self) -> float:
        """Deviation of the mean gradient of so many rows, nominally."""
        norm = self.norm(tuple(self.variance))
        return self.nominal.residual * norm / math.sqrt(self.n_rows)

    @cached_property
    def sensitive_share(self) -> float:
        """Part of the nominal variance that sensitive features have."""
        own = self.norm(self._features(ColumnRole.SENSITIVE)) ** 2
        return own / sum(self.variance.values())

    @cached_property
    def _hidden(self) -> tuple[str, ...]:
        """Features that are not sensitive."""
        insensitive = self._features(ColumnRole.INSENSITIVE)
        return (*insensitive, *self._features(ColumnRole.PUBLIC))

    @cached_property
    def _hidden_leakage(self) -> float:
        """Mean squared leakage of features that are not sensitive, by variance."""
        distance = self._distances()
        return sum(
            self.variance[u] * distance.get(u, 1.0) ** 2 for u in self._hidden
        ) / sum(self.variance[u] for u in self._hidden)

    def _distances(self) -> dict[str, float]:
        own = {
            feature: neighbor.distance
            for neighbor in self.spending.classes
            if neighbor.name.startswith("insensitive") and neighbor.name != WHOLE_RECORD
            for feature in neighbor.features
        }
        return {**self.leakage, **own}

    def _features(self, role: ColumnRole) -> tuple[str, ...]:
        return tuple(dict.fromkeys(b.feature for b in self.blocks if b.role is role))


def noise_terms(
    sensitivity: GradientSensitivity, allowed: Mapping[str, float]
) -> dict[str, FloatArray]:
    """Return what noise is allocated by besides bounds: the most that classes spend."""
    return {
        "budget_mu": np.array([allowed[name] for name in sensitivity.row_classes]),
        "sizes": np.array([group.size for group in sensitivity.groups], dtype=float),
    }
