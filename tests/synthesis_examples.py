"""A small table of patients with its policy, for tests of synthetic tables."""

import numpy as np
import pandas as pd

from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    Slot,
)

POLICY = Policy(
    (
        Feature("illness", "sensitive", CategoryDomain(("none", "flu", "other ill"))),
        Feature(
            "age",
            "insensitive",
            NumberDomain(0, 100, bins=5, missing=Slot()),
            leakage=0.3,
        ),
        Feature("visits", "insensitive", NumberDomain(0, 9, bins=10), leakage=0.2),
        Feature("town", "insensitive", CategoryDomain(("P", "L", "B")), leakage=0.1),
        Feature("country", "public", CategoryDomain(("F", "D"))),
        Feature("insured", "insensitive", BooleanDomain(), leakage=0.1),
    ),
    label=Label("returned", CategoryDomain(("no", "yes")), 0.0),
)


def patients(n_rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    town = rng.choice(["P", "L", "B"], n_rows, p=[0.5, 0.3, 0.2])
    illness = rng.choice(["none", "flu", "other ill"], n_rows, p=[0.7, 0.2, 0.1])
    age = rng.uniform(0, 100, n_rows)
    age[rng.random(n_rows) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "illness": illness,
            "age": age,
            "visits": rng.integers(0, 10, n_rows),
            "town": town,
            "country": np.where(town == "B", "D", "F"),
            "insured": rng.random(n_rows) < 0.6,
            "returned": np.where(
                (illness != "none") | (rng.random(n_rows) < 0.1), "yes", "no"
            ),
        }
    )


def marginal(model, region):
    """Return the probabilities of a region that lies in some clique of a model."""
    home = model.tree.home(region)
    others = [i for i, c in enumerate(model.tree.cliques[home]) if c not in region]
    return model.tables[home].sum(axis=tuple(others))
