"""Monte Carlo distances between fitted conditional models."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.mixture import GaussianMixture

from corrdp._typing import FloatArray
from corrdp.exceptions import PolicyError
from corrdp.leakage._levels import joint_text
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage.estimators._base import (
    EstimationContext,
    largest_pair,
    require_codes,
    require_numbers,
    require_total_variation,
)
from corrdp.leakage.estimators._sample import Sample, joint_codes


def monte_carlo_total_variation(
    first_draws: FloatArray,
    second_draws: FloatArray,
    first_log_density: Callable[[FloatArray], FloatArray],
    second_log_density: Callable[[FloatArray], FloatArray],
) -> tuple[float, float]:
    """Return the total variation of two distributions from draws, and its error.

    The mean of ``|p - q| / (p + q)`` over draws from both, which lies in [0, 1].

    Parameters
    ----------
    first_draws, second_draws : arrays, shape (n_draws, n_columns)
        Equally many draws from each.
    first_log_density, second_log_density : callable
        Logarithms of the densities at rows of points.

    Returns
    -------
    distance, standard_error : float
    """
    points = np.concatenate([first_draws, second_draws])
    log_ratio = first_log_density(points) - second_log_density(points)
    terms = np.abs(np.tanh(log_ratio / 2))
    return float(terms.mean()), float(terms.std() / math.sqrt(terms.size))


@dataclass(frozen=True)
class MonteCarlo:
    """Gaussian mixtures fitted per value, compared by draws.

    Parameters
    ----------
    n_components : int
        Components of the mixture of each value; 1 allows unequal covariances.
    n_draws : int
        Draws from each of two mixtures.

    Guarantee
    ---------
    None: an estimate without upper bound, which certified releases refuse
    (docs/theory/leakage.md, section 7).
    """

    n_components: int = 2
    n_draws: int = 10_000
    name: str = "monte_carlo"

    def estimate(self, sample: Sample, context: EstimationContext) -> FeatureLeakage:
        """Return the largest total variation between fitted mixtures."""
        require_total_variation(self.name, context.metric)
        told = require_numbers(self.name, sample.sensitive)
        changed = require_codes(self.name, sample.changed)
        values, n_values = joint_codes(changed)
        sizes = np.bincount(values, minlength=n_values)
        needed = 10 * self.n_components * told.shape[1]
        usable = np.flatnonzero(sizes >= needed)
        if usable.size < 2:
            raise PolicyError(
                f"estimator='monte_carlo' needs {needed} rows in at least two "
                f"values of {', '.join(c.feature.name for c in changed)}. Merge values "
                "by groups, or lower n_components."
            )
        seed = int(context.generator.integers(2**31))
        models = [
            GaussianMixture(self.n_components, random_state=seed, reg_covar=1e-8).fit(
                told[values == value]
            )
            for value in usable
        ]
        draws = [model.sample(self.n_draws)[0] for model in models]
        distances = np.zeros((usable.size, usable.size))
        errors = np.zeros_like(distances)
        for pair in zip(*np.tril_indices(usable.size, -1), strict=True):
            distances[pair], errors[pair] = monte_carlo_total_variation(
                *(draws[place] for place in pair),
                *(models[place].score_samples for place in pair),
            )
        first, second = largest_pair(distances)
        texts = [column.texts for column in changed]
        left_out = n_values - usable.size
        return FeatureLeakage(
            estimate=float(distances[first, second]),
            upper=None,
            method=f"Monte Carlo, mixtures of {self.n_components} Gaussians, "
            f"{self.n_draws} draws",
            reason=f"largest between {joint_text(texts, int(usable[first]))} and "
            f"{joint_text(texts, int(usable[second]))}, Monte Carlo error "
            f"{errors[first, second]:.2g}; this method has no bound"
            + (f"; {left_out} values have too few rows" if left_out else ""),
            assumptions=("the fitted mixtures are the conditional distributions",),
        )
