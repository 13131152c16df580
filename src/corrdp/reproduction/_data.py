"""Tables of the experiments, scaled as the paper scales them."""

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from corrdp._typing import FloatArray
from corrdp._validate import check_count
from corrdp.datasets import (
    PaperTable,
    gaussian_column_leakage,
    load_adult,
    load_credit_card,
    load_medical_cost,
    load_sepsis,
    paper_synthetic,
    synthetic_covariance,
)
from corrdp.exceptions import CorrDPError
from corrdp.policy import BlockKind, NumberDomain, Policy, PolicyEncoder
from corrdp.reproduction._experiments import Experiment, Model
from corrdp.training import GradientLayout, layout_by_feature

N_BALANCED = 10_000
_QUICK_SOURCE = 20_000  # admissions that a small balanced table starts from
_N_SYNTHETIC = 100  # columns of the synthetic data
AGE, SEX, EPISODE = range(3)


@dataclass(frozen=True, eq=False)
class PaperRows:
    """Rows in the paper's units.

    The layout has one group per raw feature, and no intercept, as the paper's formulas
    have none.
    """

    codes: FloatArray  # shape (n_rows, n_columns)
    labels: FloatArray  # shape (n_rows,): 0 or 1, or a number
    policy: Policy
    layout: GradientLayout
    leakage: dict[str, float]  # the paper's TV(i) of insensitive features
    label_bounds: tuple[float, float]  # declared, in the paper's units

    @cached_property
    def features(self) -> FloatArray:
        """Codes as the layout scales them."""
        return np.asarray(self.layout.features(self.codes))

    def without_sensitive(self) -> "PaperRows":
        """Return the rows with zeros for all that sensitive features say."""
        kept = ~self.layout.sensitive_columns
        layout = replace(
            self.layout,
            column_scale=self.layout.column_scale * kept,
            column_offset=self.layout.column_offset * kept,
        )
        return replace(self, layout=layout)


@lru_cache(maxsize=4)
def load_table(experiment: Experiment, seed: int = 0) -> PaperTable:
    """Return the table of an experiment with the paper's roles and leakage.

    Where the paper draws some rows, the draw of linear models has seed 0 and is the
    same for all methods, epsilons and seeds of the noise; networks of a seed have a
    draw of their own.
    """
    n_rows = experiment.n_rows
    if experiment.data == "synthetic":
        return paper_synthetic(
            n_rows=n_rows or 2000, n_sensitive=experiment.n_sensitive, random_state=seed
        )
    if experiment.data == "sepsis":
        wanted = n_rows or N_BALANCED
        source = None if wanted >= N_BALANCED else _QUICK_SOURCE
        return load_sepsis_balanced(seed, n_rows=wanted, n_source=source)
    table = {
        "adult": load_adult,
        "credit_card": load_credit_card,
        "medical_cost": lambda: load_medical_cost(roles=experiment.roles),
    }[experiment.data]()
    if n_rows is None or n_rows >= len(table.frame):
        return table
    drawn = table.frame.sample(n_rows, random_state=seed).reset_index(drop=True)
    return PaperTable(drawn, table.policy)


@lru_cache(maxsize=2)
def paper_rows(experiment: Experiment) -> PaperRows:
    """Return the rows of a linear or logistic experiment in the paper's units.

    Categories are one-hot; numbers and a numeric label are in [0, 1] by their declared
    bounds. Synthetic data: as drawn, cut to the declared bounds (E24). Credit Card,
    whose scaling the paper does not state: numbers in [-sqrt(3), sqrt(3)], since in
    [0, 1] the printed steps are too few for any method to leave the majority class.
    """
    table = load_table(experiment)
    policy = table.policy
    assert policy.label is not None  # every table of the paper has a target
    encoder = PolicyEncoder(policy).fit(table.frame)
    codes = encoder.transform(table.frame)
    labels = encoder.encode_label(table.frame[policy.label.name]).astype(float)
    scale, offset = np.ones(codes.shape[1]), np.zeros(codes.shape[1])
    as_drawn = experiment.data == "synthetic"
    for block in encoder.blocks_:
        if block.kind is BlockKind.NUMBER:
            low, high = _bounds(policy.feature(block.feature).domain, as_drawn)
            if experiment.data == "credit_card":
                low, high = -math.sqrt(3.0), math.sqrt(3.0)
            scale[block.columns] = high - low
            offset[block.columns] = -(low + high) / 2
    label_bounds = (0.0, 1.0)
    if experiment.model is Model.LINEAR:
        label_bounds = _bounds(policy.label.domain, as_drawn)
        low, high = label_bounds
        labels = (low + high) / 2 + (high - low) * labels
    leaks = _printed_leakage(experiment) if as_drawn else None
    insensitive = [policy.feature(name) for name in policy.insensitive]
    return PaperRows(
        codes=codes,
        labels=labels,
        policy=policy,
        layout=layout_by_feature(
            encoder.blocks_,
            intercept=False,
            column_scale=scale,
            column_offset=offset,
        ),
        leakage={f.name: leaks or f.leakage or 1.0 for f in insensitive},
        label_bounds=label_bounds,
    )


def typical_gradient_norm(experiment: Experiment) -> float:
    """Return the gradient bound L that least squares is calibrated to.

    Synthetic data: nothing bounds a gradient of unclipped least squares, so this is
    its root mean square at the true parameters, 2 * 5 * sqrt(E |x|^2), from the
    distribution that the paper states. It is enforced nowhere.
    """
    n_insensitive = _N_SYNTHETIC - experiment.n_sensitive
    mean_square = 2.0 * experiment.n_sensitive + 3.0 * n_insensitive
    return 2.0 * 5.0 * math.sqrt(mean_square)


def _printed_leakage(experiment: Experiment) -> float:
    """Return TV(i) of the synthetic data by the recipe of appendix D.1.

    All insensitive columns are alike; each is taken to lie within
    2 sqrt(log(2 m_s / delta)) of its mean.
    """
    n_sensitive = experiment.n_sensitive
    half_width = 2.0 * math.sqrt(math.log(2.0 * n_sensitive / experiment.delta))
    covariance = synthetic_covariance(_N_SYNTHETIC, n_sensitive)
    return gaussian_column_leakage(
        covariance, n_sensitive, _N_SYNTHETIC - 1, half_width
    )


def _bounds(domain: Any, as_drawn: bool) -> tuple[float, float]:
    assert isinstance(domain, NumberDomain)
    return (float(domain.lower), float(domain.upper)) if as_drawn else (0.0, 1.0)


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
    seed, n_rows : int
        Rows are drawn without replacement; the balanced table is that of all seeds.
    n_source : int, optional
        Admissions to start from, drawn at random; None for all 110,204.
    directory : path, optional
        Where the file is.

    Returns
    -------
    frame, labels : pandas.DataFrame, pandas.Series
        The three features, as in `load_sepsis`; 1 alive, 0 dead.
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
