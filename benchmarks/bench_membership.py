"""Membership inference on models of the hospital table, against what is certified.

Run: python benchmarks/bench_membership.py; saves the result and the table of the
documentation. Rows are made up.
"""

import warnings

import pandas as pd
from saved_tables import markdown_table, save_figures, save_table

from corrdp.auditing import infer_membership
from corrdp.datasets import hospital_columns, hospital_policy
from corrdp.estimators import LogisticRegression
from corrdp.exceptions import UtilityWarning

N_ROWS = 200
ATTACKED = (
    ("nonprivate", 1.0),
    ("standard", 1.0),
    ("standard", 8.0),
    ("corr", 1.0),
    ("corr", 8.0),
)


def measured():
    """Return a row per method and epsilon."""
    table = pd.DataFrame(hospital_columns(N_ROWS, random_state=1))
    rows = []
    for method, epsilon in ATTACKED:
        model = LogisticRegression(
            hospital_policy(), epsilon=epsilon, delta=1e-5, method=method
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            found = infer_membership(model, table, research=True, random_state=0)
        rows.append({"method": method, "epsilon": epsilon} | found.to_json())
        print(rows[-1]["method"], epsilon, rows[-1]["words"], flush=True)
    return rows


def table_of(rows):
    """Return the table of the documentation."""
    header = [
        "method",
        "epsilon",
        "right of 100",
        "standard error",
        "certified at most",
    ]
    lines = []
    for row in rows:
        numbers = [
            100 * row[key]
            for key in ("accuracy", "standard_error", "certified_accuracy")
        ]
        is_private = row["method"] != "nonprivate"
        lines.append(
            [
                row["method"],
                f"{row['epsilon']:g}" if is_private else "",
                *(f"{number:.1f}" for number in numbers),
            ]
        )
    return markdown_table(header, lines)


def run():
    """Measure, save, and return what the page of all benchmarks shows."""
    saved = measured()
    save_figures("audit_membership", saved)
    save_table("audit_membership", table_of(saved))
    return [
        {
            "name": f"right guesses, {row['method']}, epsilon {row['epsilon']:g}",
            "value": row["accuracy"],
            "unit": "share",
            "target": f"at most {row['certified_accuracy']:.3f}",
        }
        for row in saved
    ]


if __name__ == "__main__":
    run()
