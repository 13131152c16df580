"""Sepsis balanced as the paper describes it: SMOTE, Edited Nearest Neighbours, a draw.

Resampling reads private rows and nothing here pays for it (erratum E23): it is part of
the paper's set-up, not of any guarantee.
"""

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from corrdp._validate import check_count
from corrdp.datasets import PaperTable, load_sepsis
from corrdp.exceptions import CorrDPError

N_BALANCED = 10_000
AGE, SEX, EPISODE = range(3)


def sepsis_balanced(
    seed: int = 0,
    *,
    n_rows: int = N_BALANCED,
    n_source: int | None = None,
    directory: str | Path | None = None,
) -> tuple[Any, Any]:
    """Return rows of Sepsis with both outcomes about equally frequent.

    Sex and episode are categories and ages stay whole years (SMOTENC), then records
    whose three nearest neighbors vote for the other outcome are removed (ENN,
    ``kind_sel="mode"``, both classes). The table has 1,010 distinct points, so most
    neighbors are ties, which the default SMOTEENN breaks by row number: it removes all
    but 160 deaths. Here ties are broken at random: neighbors are found with ages
    moved by less than half a year.

    Parameters
    ----------
    seed : int
        Seed of the draw; the balanced table itself is the same for all seeds.
    n_rows : int
        Rows to draw without replacement.
    n_source : int, optional
        Admissions to start from, drawn at random; None for all 110,204.
    directory : path, optional
        Where the file is.

    Returns
    -------
    frame : pandas.DataFrame
        The three features, as in `load_sepsis`.
    labels : pandas.Series
        1 alive, 0 dead.
    """
    check_count("n_rows", n_rows)
    balanced = _balanced(n_source, None if directory is None else str(directory))
    if n_rows > len(balanced):
        raise CorrDPError(
            f"n_rows must not exceed the {len(balanced)} rows of the balanced table, "
            f"got n_rows={n_rows}. Lower it."
        )
    rng = np.random.default_rng(seed)
    drawn = balanced.iloc[rng.choice(len(balanced), size=n_rows, replace=False)]
    drawn = drawn.reset_index(drop=True)
    return drawn.iloc[:, :-1], drawn.iloc[:, -1]


def load_sepsis_balanced(
    seed: int = 0,
    *,
    n_rows: int = N_BALANCED,
    n_source: int | None = None,
    directory: str | Path | None = None,
) -> PaperTable:
    """Return `sepsis_balanced` as one table with the policy of `load_sepsis`."""
    frame, labels = sepsis_balanced(
        seed, n_rows=n_rows, n_source=n_source, directory=directory
    )
    return PaperTable(frame.join(labels), load_sepsis(directory).policy)


@lru_cache(maxsize=4)
def _balanced(n_source: int | None, directory: str | None) -> Any:
    try:
        from imblearn.over_sampling import SMOTENC
        from imblearn.under_sampling import EditedNearestNeighbours
    except ImportError:
        raise CorrDPError(
            "balancing Sepsis needs imbalanced-learn, which is not installed. "
            "Install corrdp[reproduce]."
        ) from None
    frame = load_sepsis(directory).frame
    if n_source is not None:
        frame = frame.sample(n_source, random_state=0).reset_index(drop=True)
    features, labels = frame.iloc[:, :-1], frame.iloc[:, -1]
    grown, outcome = SMOTENC([SEX, EPISODE], random_state=0).fit_resample(
        features, labels
    )
    shifted = grown.astype(float)
    shifted.iloc[:, AGE] += np.random.default_rng(0).uniform(-0.5, 0.5, len(grown))
    cleaning = EditedNearestNeighbours(sampling_strategy="all", kind_sel="mode")
    cleaning.fit_resample(shifted, outcome)
    kept = np.sort(cleaning.sample_indices_)
    return grown.iloc[kept].assign(**{labels.name: outcome.iloc[kept]})
