"""A step size per column: as far as its curvature asks, and its noise allows.

One size for all columns is right where columns are alike. Hats are not: a knot in a
crowd has a hundred times the curvature of one in a tail, and noise does not know.
"""

from dataclasses import dataclass

import numpy as np

from corrdp._typing import FloatArray
from corrdp.policy import BlockKind
from corrdp.training._layout import GradientLayout

_NUMBER_VARIANCE = 1.0 / 3.0  # nominal, of a scaled number without knots
_LEAST_SHARE = 0.002  # of the rows, below which a mean says nothing but noise


@dataclass(frozen=True, slots=True)
class ColumnSteps:
    """How the size of a step follows from curvature and noise.

    Parameters
    ----------
    progress : float
        Product of curvature, step size and number of steps where there is no noise:
        what is left of an error after all steps is exp(-progress), nominally.
    distance : float
        How far noise alone may move a coefficient over all steps.

    Guarantee
    ---------
    A function of released means, of the noise that was added and of public numbers:
    costs nothing (`docs/theory/additive.md`, section 3).
    """

    progress: float = 16.0
    distance: float = 0.5

    def sizes(
        self, curvature: FloatArray, noise: FloatArray, n_steps: int
    ) -> FloatArray:
        """Return the step size of every column.

        Parameters
        ----------
        curvature : array of float, shape (n_columns,)
            Curvature of the loss along every column.
        noise : array of float, shape (n_columns,)
            Noise on the mean gradient, were it released once for all steps.
        n_steps : int
            Number of steps.
        """
        slowed = curvature + self.progress * noise / self.distance
        return np.asarray(self.progress / (n_steps * slowed))


def column_curvature(
    layout: GradientLayout, means: FloatArray, curvature: float
) -> FloatArray:
    """Return the curvature of the loss along every column, as far as means tell.

    Parameters
    ----------
    layout : GradientLayout
        Blocks and scales.
    means : array of float, shape (n_codes,)
        Released means of the codes.
    curvature : float
        Of the loss in the score.

    Guarantee
    ---------
    Post-processing of released means (`docs/theory/additive.md`, section 3). The mean
    of hats is a histogram, from which the variance of the number itself follows.
    """
    variance = np.ones(layout.n_columns)
    shares = np.clip(means, _LEAST_SHARE, 1.0)
    for block in layout.blocks:
        if block.kind is BlockKind.NUMBER:
            own = 0.5 if block.boolean else _NUMBER_VARIANCE
            variance[block.columns] = own
        else:
            share = shares[block.columns]
            variance[block.columns] = share * np.maximum(1.0 - share, 0.25)
    for block in layout.blocks:
        if block.kind is BlockKind.HATS:
            share = shares[block.columns] / shares[block.columns].sum()
            place = np.array(block.positions)
            spread = float(share @ place**2 - (share @ place) ** 2)
            number = block.start - 1  # the column of the number comes first
            variance[number] = spread * layout.column_scale[number] ** 2
    return np.asarray(curvature * variance)
