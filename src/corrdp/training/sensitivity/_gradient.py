"""The claim: how far one record moves each group of a gradient (sections 1 and 5)."""

import importlib
import importlib.util
import math
import operator
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from corrdp._typing import FloatArray
from corrdp._validate import check_real
from corrdp.accounting import Group, SensitivityTable
from corrdp.exceptions import CorrDPError, MissingBoundError
from corrdp.policy import NeighborClass
from corrdp.training._layout import GradientLayout
from corrdp.training.losses import Loss
from corrdp.training.sensitivity._corners import (
    FeatureGeometry,
    chains_of,
    feature_geometries,
    regrouped,
)
from corrdp.training.sensitivity._movement import movement_bounds
from corrdp.training.sensitivity._residuals import LabelChanges, ResidualPairs
from corrdp.training.sensitivity._scores import ScoreRanges
from corrdp.training.sensitivity._table import (
    MovementTable,
    movement_table,
    with_influence_bounds,
)


class GradientSensitivity:
    r"""Bounds Delta[row, group] on how far one record moves a gradient.

    Parameters
    ----------
    loss : Loss
        Logistic, squared, Huber or multinomial.
    layout : GradientLayout
        Groups, clipping, influence bounds, scaling, offsets, projections.
    classes : sequence of NeighborClass
        Classes of the policy, ``whole_record`` included.
    label_bounds : pair of float
        Smallest and largest label; numbers are encoded to [-1/2, 1/2]. Not used by
        logistic and multinomial losses.
    reference : array of float, shape (n_codes,), optional
        The public row of `record_gradients`, if it is not the default.
    compiled : bool
        Whether to use numba where it is installed; the bounds are the same.
    like : GradientSensitivity, optional
        Of a layout that differs in its groups alone, under the same classes and the
        same reference: what does not depend on groups is taken from there, and
        nearly all if only the sizes of influence bounds differ.

    Attributes
    ----------
    groups : tuple of Group
        Columns of the bounds.
    row_classes : tuple of str
        Neighbor class of every row; a class has several.
    geometries : tuple of FeatureGeometry
        Corners of every feature.
    scores : ScoreRanges
        How far scores reach, and how far classes move them.
    movement : MovementTable
        What rows know before there are parameters.

    Guarantee
    ---------
    For any two records that are neighbors of class c, with squared movements
    :math:`m_G^2` of the groups: some convex combination of the squared rows of c is
    at least :math:`m^2` in every group, so for all precisions
    :math:`\sum_G p_G m_G^2 \le \max_{r \in c} \sum_G p_G \Delta_{rG}^2`. Proof:
    docs/theory/glm_sensitivity.md, docs/theory/influence.md. Not covered: records
    outside the declared domain (the encoder keeps them inside), labels outside
    `label_bounds`.

    Notes
    -----
    What the bounds are at the edges of what they cover:

    ======================================== =======================================
    case                                     bound
    ======================================== =======================================
    ``coef`` is 0                            logistic residuals are 1/2; numbers reach
                                             from the smallest to the largest label
    no group that a class changes            one row, at the largest gap
    group without clip norm                  no cap; `contribution` is infinite if the
                                             residual is unbounded too
    clip norm below every gradient           2 C in all rows of the chain
    influence bound 0                        0 under classes that leave the reference
                                             residual alone
    influence bound infinite                 the ordinary gradient
    feature radius below the features        Lemma 7 in place of Lemma 6
    feature with one corner (intercept)      moves with the residual alone
    group that is held                       0: nothing is released of it
    label may change, logistic               a row of its own: the sign flips
    label may change, numbers                the gap is wider by the range of labels
    several outputs                          one row per class, of norms
    no parameters yet                        `worst_case_bounds`; needs a bounded
                                             residual or a radius
    more than 64 corners in a feature        one pair above all pairs of corners
    ======================================== =======================================
    """

    def __init__(
        self,
        loss: Loss,
        layout: GradientLayout,
        classes: Sequence[NeighborClass],
        *,
        label_bounds: tuple[float, float] = (-0.5, 0.5),
        reference: FloatArray | None = None,
        compiled: bool = True,
        like: "GradientSensitivity | None" = None,
    ) -> None:
        self.loss = loss
        self.layout = layout
        self.classes = tuple(classes)
        self.label_bounds = _checked_label_bounds(label_bounds)
        geometries: tuple[FeatureGeometry, ...] = (
            feature_geometries(layout)
            if like is None
            else regrouped(like.geometries, layout)
        )
        self.geometries: tuple[FeatureGeometry, ...] = geometries
        self.groups: tuple[Group, ...]
        self.row_classes: tuple[str, ...]
        self.movement: MovementTable
        self.scores: ScoreRanges = (
            ScoreRanges(layout, geometries, self.classes, reference)
            if like is None
            else like.scores
        )
        if like is not None and _have_same_rows(like.loss, like.layout, loss, layout):
            self.groups, self.row_classes = like.groups, like.row_classes
            self.movement = with_influence_bounds(like.movement, layout)
        else:
            chains = tuple(chains_of(loss, layout, geometries, self.classes))
            self.groups = layout.table_groups(loss.n_outputs)
            self.row_classes = tuple(
                chain.neighbor.name for chain in chains for _ in chain.corners
            )
            self.movement = movement_table(layout, geometries, self.classes, chains)
        self._holds = bool(layout.held_groups.any())
        wanted = compiled and loss.has_compiled_bounds
        self._compiled = _compiled_function() if wanted else None
        changes = np.array([float(neighbor.label_changes) for neighbor in self.classes])
        low, high = self.label_bounds
        self._labels = LabelChanges(self.label_bounds, changes, changes * (high - low))

    def bounds(
        self,
        coef: FloatArray,
        *,
        anchor: FloatArray | None = None,
        residual_bound: float | None = None,
    ) -> FloatArray:
        """Return the bounds at `coef`, shape (n_rows, n_groups).

        Parameters
        ----------
        coef : array of float, shape (n_columns,) or (n_columns, n_outputs)
            Public parameters.
        anchor : array of float, same shape, optional
            Bound the inner term of variance reduction instead, whose residual is
            the difference of the residuals at `coef` and `anchor`.
        residual_bound : float, optional
            Replaces that of a `SquaredLoss`, which training may adapt.
        """
        loss = self.loss
        if residual_bound is not None:
            loss = loss.with_residual_bound(residual_bound)
        if anchor is None and self._compiled is not None:
            return self._released(self._compiled_bounds(coef, loss))
        if anchor is None:
            return self._movement_bounds(
                loss.residual_pairs(self.scores.at(coef), self._labels)
            )
        difference = (coef - anchor, coef, anchor)
        step, here, there = (self.scores.at(part) for part in difference)
        return self._movement_bounds(
            loss.difference_pairs(step, here, there, self._labels)
        )

    def worst_case_bounds(self, parameter_radius: float | None = None) -> FloatArray:
        """Return bounds for all parameters, or all of 2-norm up to a radius.

        They hold whatever training does, so a plan can be made before it.
        """
        radius = math.inf if parameter_radius is None else parameter_radius
        if math.isinf(radius) and math.isinf(self.loss.residual_limit):
            raise MissingBoundError(
                "parameter_radius is None, but the residual of "
                f"{type(self.loss).__name__} grows with the parameters. "
                "Pass the radius they are projected on, or clip the residual."
            )
        scores = self.scores.up_to(radius)
        return self._movement_bounds(self.loss.residual_pairs(scores, self._labels))

    def contribution(self) -> FloatArray:
        """Return the largest norm of one record's part, shape (n_groups,).

        Infinite for a group without clip norm under an unbounded residual.
        """
        clip_norms = np.array([group.clip_norm for group in self.layout.groups])
        reach = self.loss.residual_limit * self.movement.radius
        return np.asarray(np.minimum(clip_norms, reach))

    def table(self, coef: FloatArray | None = None) -> SensitivityTable:
        """Return a table at `coef`, or one valid for all parameters."""
        bounds = self.worst_case_bounds() if coef is None else self.bounds(coef)
        contribution = self.contribution()
        return SensitivityTable(
            groups=self.groups,
            classes=self.row_classes,
            bounds=bounds,
            contribution=contribution if np.isfinite(contribution).all() else None,
        )

    def _compiled_bounds(self, coef: FloatArray, loss: Loss) -> FloatArray:
        assert self._compiled is not None
        bounds: FloatArray = self._compiled(
            np.asarray(coef, dtype=np.float64),
            self.scores.corners,
            self.movement,
            loss.label_fixes_sign,
            loss.residual_limit,
            self.label_bounds,
            self._labels.gap,
        )
        return bounds

    def _movement_bounds(self, pairs: ResidualPairs) -> FloatArray:
        scalar = self.loss.n_outputs == 1
        return self._released(movement_bounds(self.movement, pairs, scalar=scalar))

    def _released(self, bounds: FloatArray) -> FloatArray:
        """Return the bounds with 0 for groups that are held: nothing leaves of them."""
        if self._holds:
            bounds[:, self.layout.held_groups] = 0.0
        return bounds


def _compiled_function() -> Callable[..., FloatArray] | None:
    if importlib.util.find_spec("numba") is None:
        return None
    module = importlib.import_module("corrdp.training.kernels._scalar_bounds")
    function: Callable[..., FloatArray] = module.scalar_bounds
    return function


def _have_same_rows(
    loss: Loss, layout: GradientLayout, other_loss: Loss, other: GradientLayout
) -> bool:
    """Return whether layouts differ in the size of influence bounds alone."""

    def kinds(each: GradientLayout) -> Iterator[tuple[object, ...]]:
        for group in each.groups:
            bounded = math.isfinite(group.influence_bound)
            yield group.features, group.clip_norm, group.feature_radius, bounded

    same_loss = (loss.label_fixes_sign, loss.n_outputs) == (
        other_loss.label_fixes_sign,
        other_loss.n_outputs,
    )
    n_groups = len(layout.groups)
    return (
        same_loss
        and n_groups == len(other.groups)
        and all(map(operator.eq, kinds(layout), kinds(other)))
    )


def _checked_label_bounds(label_bounds: tuple[float, float]) -> tuple[float, float]:
    low, high = (check_real("label_bounds", bound) for bound in label_bounds)
    if not low <= high:
        raise CorrDPError(
            f"label_bounds must be (smallest, largest), got {label_bounds!r}. "
            "Put the smaller bound first."
        )
    return low, high
