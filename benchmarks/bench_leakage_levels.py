"""Time of leakage by the number of levels: categories, and bins of a number.

Bounds are of all pairs of levels, so their number grows with the square.
Processor time, since the machine is shared.
"""

import time

import numpy as np
import pandas as pd

from corrdp.leakage import estimate_leakage
from corrdp.policy import CategoryDomain, Feature, NumberDomain, Policy

LEVELS = (50, 100, 200, 400, 800)
ROWS = 300_000
SENSITIVE = CategoryDomain(tuple(f"s{code}" for code in range(5)))
KINDS = {
    "private, apart": ("categories", {"epsilon": 1.0, "delta": 1e-6}, False),
    "private, joined": ("categories", {"epsilon": 1.0, "delta": 1e-6}, True),
    "private, bins joined": ("bins", {"epsilon": 1.0, "delta": 1e-6}, True),
    "public, apart": ("categories", {"source": "public"}, False),
    "public, joined": ("categories", {"source": "public"}, True),
    "public, bins joined": ("bins", {"source": "public"}, True),
}


def table(n_levels: int, levels: str) -> tuple[pd.DataFrame, Policy]:
    """Return rows whose levels tell nothing, and their policy."""
    generator = np.random.default_rng(0)
    columns = {"s": [f"s{code}" for code in generator.integers(0, 5, ROWS)]}
    if levels == "bins":
        domain = NumberDomain(0.0, float(n_levels), bins=n_levels)
        columns["u"] = generator.integers(0, n_levels, ROWS) + 0.5
    else:
        domain = CategoryDomain(tuple(f"u{code}" for code in range(n_levels)))
        columns["u"] = [f"u{code}" for code in generator.integers(0, n_levels, ROWS)]
    features = Feature("s", "sensitive", SENSITIVE), Feature("u", "insensitive", domain)
    return pd.DataFrame(columns), Policy(features)


def seconds(kind: str, n_levels: int) -> float:
    """Return the processor time of one estimate."""
    levels, source, join = KINDS[kind]
    frame, policy = table(n_levels, levels)
    start = time.process_time()
    estimate_leakage(frame, policy, join_levels=join, random_state=0, **source)
    return time.process_time() - start


def run() -> list[dict]:
    rows = []
    for kind in KINDS:
        seconds(kind, 10)  # imports and compiled kernels
        rows += [
            {
                "name": f"{n_levels} levels, {kind}",
                "value": round(seconds(kind, n_levels), 3),
                "unit": "s",
                "target": "< 5" if n_levels == max(LEVELS) else "",
                "note": f"{ROWS:,} rows, 5 sensitive cells, one thread",
            }
            for n_levels in LEVELS
        ]
    return rows


if __name__ == "__main__":
    for row in run():
        print(f"{row['name']:<32} {row['value']:>8} {row['unit']:<3} {row['target']}")
