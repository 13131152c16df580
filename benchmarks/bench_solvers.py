"""Losses and solvers beside the default: three labels, Huber, variance reduction.

Every figure is a mean over seeds of the score on the training table: accuracy or R
squared. The Huber threshold, an eighth of the declared range, and the length of an
epoch, ten steps, were fixed before the run; the share of whole gradients was chosen
among three values on one seed of the synthetic data. Tables as for `bench_utility`.
"""

import warnings

import numpy as np
from bench_utility import folder

from corrdp.datasets._paper import PaperTable, load_adult, load_medical_cost
from corrdp.datasets._synthetic import paper_synthetic
from corrdp.estimators import LinearRegression, LogisticRegression
from corrdp.policy import CategoryDomain, Label, Policy

SEEDS = 5
ADULT_ROWS = 5000
EPSILONS = (0.1, 1.0)
BANDS = {"Never-married": "single", "Married-civ-spouse": "married"}


def small_adult() -> PaperTable:
    """Return the paper's columns of some rows, so that noise is seen."""
    table = load_adult(folder())
    frame = table.frame.sample(ADULT_ROWS, random_state=0).reset_index(drop=True)
    return PaperTable(frame, table.policy)


def three_labels() -> PaperTable:
    """Return the same rows with the marital status, in three levels, as the label."""
    table = small_adult()
    status = table.frame["marital-status"].map(BANDS).fillna("other")
    features = tuple(f for f in table.policy.features if f.name != "marital-status")
    domain = CategoryDomain(("single", "married", "other"))
    policy = Policy(features, Label("marital-status", domain, score=0.0))
    frame = table.frame.drop(columns=["income"]).assign(**{"marital-status": status})
    return PaperTable(frame, policy)


def scores(kind: type, table: PaperTable, epsilon: float, **options) -> np.ndarray:
    """Return the score of every seed; one of a model without noise."""
    target = table.frame[table.policy.label.name]
    n_models = 1 if options.get("method") == "nonprivate" else SEEDS
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # little signal is part of the picture
        return np.array(
            [
                kind(
                    table.policy,
                    epsilon=epsilon,
                    delta=1e-5,
                    random_state=seed,
                    research=True,
                    **options,
                )
                .fit(table.frame)
                .score(table.frame, target)
                for seed in range(n_models)
            ]
        )


def compared(name: str, kind: type, table: PaperTable, variants: dict) -> list[dict]:
    """Return rows of several variants at every epsilon, each against the first."""
    rows = []
    for epsilon in EPSILONS:
        first = None
        for label, options in variants.items():
            found = scores(kind, table, epsilon, **options)
            error = float(found.std(ddof=1) / np.sqrt(found.size))
            note = ""
            if first is None:
                first = found
            else:
                gap = found - first  # the same seeds, so the same noise in part
                spread = max(float(gap.std(ddof=1) / np.sqrt(gap.size)), 1e-12)
                note = f"{gap.mean() / spread:+.1f} standard errors against the first"
            rows.append(
                {
                    "name": f"{name}, epsilon {epsilon:g}, {label}",
                    "value": float(found.mean()),
                    "unit": f"+- {error:.2g}",
                    "target": "",
                    "note": note,
                }
            )
            print(rows[-1], flush=True)
    return rows


def run() -> list[dict]:
    solvers = {"full batches": {}, "SVRG": {"solver": "svrg"}}
    adult, medical = small_adult(), load_medical_cost(folder())
    rows = compared("Adult, 5,000 rows", LogisticRegression, adult, solvers)
    rows += compared("synthetic", LinearRegression, paper_synthetic(), solvers)
    label = medical.policy.label.domain
    huber = {"loss": "huber", "huber_threshold": (label.upper - label.lower) / 8}
    rows += compared(
        "Medical Cost",
        LinearRegression,
        medical,
        {"squared": {}, "Huber": huber, "squared, SVRG": {"solver": "svrg"}},
    )
    marital = three_labels()
    methods = {"corr": {}, "standard": {"method": "standard"}}
    rows += compared(
        "three labels",
        LogisticRegression,
        marital,
        methods | {"corr, SVRG": {"solver": "svrg"}},
    )
    best = scores(LogisticRegression, marital, 1.0, method="nonprivate")[0]
    majority = marital.frame["marital-status"].value_counts(normalize=True).max()
    for what, value in (("without noise", best), ("the most frequent", majority)):
        row = {"name": f"three labels, {what}", "value": float(value), "unit": ""}
        rows.append(row | {"target": "", "note": ""})
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
