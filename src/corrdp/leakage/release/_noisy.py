"""From released tables to distances and bounds: post-processing, nothing else."""

from collections.abc import Mapping

import numpy as np

from corrdp.leakage._counts import CountLayout
from corrdp.leakage._plug_in import noisy_leakage
from corrdp.leakage._result import FeatureLeakage
from corrdp.leakage.release._noise import NoisyTable, grouped
from corrdp.leakage.release._request import LeakageRequest, shares_of_cells


def noisy_leakages(
    request: LeakageRequest,
    layout: CountLayout,
    released: Mapping[str, NoisyTable],
    n_rows: int,
) -> dict[str, FeatureLeakage]:
    """Return the leakage that released tables tell, feature by feature.

    Guarantee
    ---------
    A function of what was released and of public numbers (docs/theory/leakage.md,
    Theorem 5); bounds hold by its Theorem 2.
    """
    shares = shares_of_cells(
        {
            shape.name: (noisy.cells, noisy.cell_scale)
            for shape in layout.shapes
            for noisy in [released[shape.name]]
            if noisy.cells.any()
        }
    )
    found = {}
    for shape in layout.shapes:
        noisy = released[shape.name]
        sizes = grouped(noisy.sizes, noisy.groups, axis=-1)
        joined = request.joined(shape, noisy.groups, noisy.sizes)
        found[shape.name] = joined.of(
            noisy_leakage(
                noisy.cells,
                sizes,
                joined.words,
                metric=request.metric,
                noise_scale=noisy.cell_scale,
                size_noise_scale=noisy.size_scale,
                failure_probability=request.feature_failure_probability,
                n_levels=np.array([len(g) for g in noisy.groups] or [1] * len(sizes)),
                n_rows=n_rows,
                cell_shares=shares.get(shape.name),
            )
        )
    return found
