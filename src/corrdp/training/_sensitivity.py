"""How far one record can move each group of a gradient, at the current parameters."""

from collections.abc import Sequence

import numpy as np

from corrdp._typing import FloatArray
from corrdp.accounting import Group, SensitivityTable
from corrdp.policy import NeighborClass
from corrdp.training._layout import GradientLayout
from corrdp.training._losses import Loss


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

    Attributes
    ----------
    groups : tuple of Group
        Columns of the bounds.
    row_classes : tuple of str
        Neighbor class of every row; a class has several.

    Guarantee
    ---------
    For any two records that are neighbors of class c, with squared movements
    :math:`m_G^2` of the groups: some convex combination of the squared rows of c is
    at least :math:`m^2` in every group, so for all precisions
    :math:`\sum_G p_G m_G^2 \le \max_{r \in c} \sum_G p_G \Delta_{rG}^2`. Proof:
    docs/theory/glm_sensitivity.md, docs/theory/influence.md.
    """

    groups: tuple[Group, ...]
    row_classes: tuple[str, ...]

    def __init__(
        self,
        loss: Loss,
        layout: GradientLayout,
        classes: Sequence[NeighborClass],
        *,
        label_bounds: tuple[float, float] = (-0.5, 0.5),
    ) -> None:
        self.loss = loss
        self.layout = layout
        self.classes = tuple(classes)
        self.label_bounds = label_bounds

    def bounds(
        self,
        coef: FloatArray,
        *,
        anchor: FloatArray | None = None,
        residual_bound: float | None = None,
    ) -> FloatArray:
        """Return the bounds at `coef`, shape (n_rows, n_groups), in a reused buffer.

        With `anchor`, of the inner term of variance reduction. `residual_bound`
        replaces that of a `SquaredLoss`, which training may adapt.
        """
        raise NotImplementedError

    def worst_case_bounds(self, parameter_radius: float | None = None) -> FloatArray:
        """Return bounds for all parameters, or all of 2-norm up to a radius."""
        raise NotImplementedError

    def contribution(self) -> FloatArray:
        """Return the largest norm of one record's part, shape (n_groups,)."""
        raise NotImplementedError

    def table(self, coef: FloatArray | None = None) -> SensitivityTable:
        """Return a table at `coef`, or one valid for all parameters."""
        bounds = self.worst_case_bounds() if coef is None else self.bounds(coef)
        return SensitivityTable(
            groups=self.groups,
            classes=self.row_classes,
            bounds=np.array(bounds),
            contribution=self.contribution(),
        )
