"""Tables on which default rules are measured: private rows, test rows, a policy.

Seven public tables (docs/defaults.md lists the looks at them), the paper's own, and two
with more than two labels. Foreign tables are split by position (their rows are
shuffled): a fifth declared public, from which upper bounds on leakage come, three
fifths private, a fifth for tests. Read from CORRDP_DATA_DIR, or the parent's
shared/data; never committed.
"""

import json
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from bench_utility import wide_adult

from corrdp.datasets._paper import (
    load_adult,
    load_credit_card,
    load_medical_cost,
    load_sepsis,
)
from corrdp.datasets._synthetic import paper_synthetic
from corrdp.leakage import estimate_leakage
from corrdp.policy import CategoryDomain, Feature, Label, NumberDomain, Policy

ROOT = Path(__file__).parents[1]
FOREIGN_BINARY = ("alcohol", "fair", "german", "compas", "student")
FOREIGN_NUMBER = ("card", "k401")
MULTINOMIAL = ("k401_thirds", "blobs")
OWN_BINARY = ("adult", "credit", "adult_wide", "sepsis")
OWN_NUMBER = ("medical", "synthetic")


@dataclass(frozen=True, eq=False)
class RuleTable:
    """Rows and what a fit on them needs.

    Parameters
    ----------
    name : str
        Name in saved runs.
    policy : Policy
        With leakage; the label is public.
    private, test : DataFrame
        Rows that train, and others (the private ones again if there are none).
    public : DataFrame or None
        Rows that may be read freely.
    delta : float
        Of every budget.
    """

    name: str
    policy: Policy
    private: Any
    test: Any
    public: Any
    delta: float

    @property
    def model(self) -> str:
        """Kind of model: logistic or linear."""
        assert self.policy.label is not None
        number = isinstance(self.policy.label.domain, NumberDomain)
        return "linear" if number else "logistic"


def folder() -> Path:
    return Path(os.environ.get("CORRDP_DATA_DIR", ROOT / ".." / "shared" / "data"))


def load_table(name: str) -> RuleTable:
    """Return a table by its name."""
    if name in (*FOREIGN_BINARY, *FOREIGN_NUMBER):
        return _foreign(name)
    if name == "k401_thirds":
        return _k401_thirds()
    if name == "blobs":
        return split_rows(name, *_blobs())
    loaders: dict[str, Callable[[], Any]] = {
        "adult": lambda: load_adult(folder()),
        "adult_wide": wide_adult,
        "credit": lambda: load_credit_card(folder()),
        "sepsis": lambda: load_sepsis(folder()),
        "medical": lambda: load_medical_cost(folder()),
        "synthetic": paper_synthetic,
    }
    table = loaders[name]()
    delta = 1e-4 if name == "synthetic" else 1e-5
    return RuleTable(name, table.policy, table.frame, table.frame, None, delta)


def all_leakage_one(table: RuleTable) -> RuleTable:
    """Return the table with every leakage at 1: distances bring nothing then."""
    ones = dict.fromkeys(table.policy.insensitive, 1.0)
    return replace(table, policy=table.policy.with_leakage(ones))


def _foreign(name: str) -> RuleTable:
    return split_rows(name, *foreign_parts(name))


def foreign_parts(name: str) -> tuple[Any, Policy]:
    """Return all rows of a foreign table, and its policy without leakage."""
    place = folder() / "foreign"
    document = json.loads((place / f"{name}.json").read_text())["policy"]
    document["label"]["score"] = 0.0
    text = {
        feature: str
        for feature, table in [*document["features"].items()]
        if table["type"] != "number"
    }
    if document["label"]["type"] != "number":
        text[document["target"]] = str
    frame = pd.read_csv(place / f"{name}.csv.gz", dtype=text, keep_default_na=False)
    return frame, Policy.from_dict(document)


def split_rows(name: str, frame: Any, policy: Policy) -> RuleTable:
    """Return a table split by position: a public fifth, private rows, a test fifth."""
    first, second = len(frame) // 5, len(frame) - len(frame) // 5
    public, private, test = frame[:first], frame[first:second], frame[second:]
    parts = [part.reset_index(drop=True) for part in (public, private, test)]
    leakage = estimate_leakage(parts[0], policy, source="public", join_levels=False)
    declared = policy.with_leakage(dict(leakage.distances()))
    return RuleTable(name, declared, parts[1], parts[2], parts[0], 1e-5)


def _k401_thirds() -> RuleTable:
    """Return the table of incomes with three bands of it as the label."""
    table = _foreign("k401")
    label = Label("band", CategoryDomain(("low", "middle", "high")), score=0.0)

    def banded(frame: Any) -> Any:
        band = np.digitize(frame["inc"], [25.0, 45.0])  # thousands of dollars
        names = np.array(["low", "middle", "high"])[band]
        return frame.drop(columns="inc").assign(band=names)

    return replace(
        table,
        name="k401_thirds",
        policy=replace(table.policy, label=label),
        private=banded(table.private),
        test=banded(table.test),
        public=banded(table.public),
    )


def _blobs() -> tuple[Any, Policy]:
    """Return four nearly separable labels: normal clouds around corners of a cube."""
    rng = np.random.default_rng(11)
    n_rows, n_columns = 8000, 8
    label = rng.integers(4, size=n_rows)
    centers = rng.choice([-1.2, 1.2], size=(4, n_columns))
    numbers = centers[label] + rng.standard_normal((n_rows, n_columns))
    frame = pd.DataFrame({f"x{i}": numbers[:, i] for i in range(n_columns)})
    frame["city"] = np.array(list("abcd"))[(label + (rng.random(n_rows) < 0.5)) % 4]
    frame["label"] = np.array(["n", "e", "s", "w"])[label]
    features = (
        *(
            Feature(
                f"x{i}",
                "sensitive" if i < 2 else "insensitive",
                NumberDomain(-4, 4, bins=4),
            )
            for i in range(n_columns)
        ),
        Feature("city", "insensitive", CategoryDomain(tuple("abcd"))),
    )
    policy = Policy(
        features, Label("label", CategoryDomain(("n", "e", "s", "w")), score=0.0)
    )
    return frame, policy
