"""Tables of ``docs/defaults.md`` from the saved runs of ``bench_foreign.py``."""

import json
import math
from typing import Any

from saved_tables import RESULTS, markdown_table

BEFORE, NOW = RESULTS / "foreign_before.json", RESULTS / "foreign.json"
PAGE = RESULTS / "foreign.inc"
BINARY = ("alcohol", "compas", "fair", "german", "student")
NUMBER = ("card", "k401", "medical", "synthetic")
LABELS = ("k401_thirds", "blobs")
OWN = ("adult", "adult_wide", "credit", "sepsis")


def cells(run: dict[str, Any], key: str = "excess") -> dict[tuple[str, float], Any]:
    """Return mean, standard error and a row of every method and epsilon."""
    groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
    for row in run["rows"]:
        groups.setdefault((row["method"], row["epsilon"]), []).append(row)
    found = {}
    for cell, rows in groups.items():
        values = [row[key] for row in rows]
        mean = math.fsum(values) / len(values)  # of equal values that value
        squares = sum((value - mean) ** 2 for value in values)
        error = math.sqrt(squares / max(len(values) - 1, 1) / len(values))
        found[cell] = (mean, error, rows[0])
    return found


def geometric_mean(values: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(math.log(value) for value in values) / len(values))


def _mean(run: dict[str, Any], method: str, epsilon: float) -> float:
    """Return the mean excess of a cell; NaN if it was not measured."""
    found = cells(run).get((method, epsilon))
    return math.nan if found is None else found[0]


def _ratio(above: list[float], below: list[float]) -> str:
    """Return the geometric mean of ratios, in words of a table."""
    mean = geometric_mean([a / b for a, b in zip(above, below, strict=True)])
    return "" if math.isnan(mean) else f"{mean:.2f}"


def page(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Return all tables as Markdown."""
    header = ["table", "epsilon", "corr", "standard", "semi", "standard before"]
    header += ["constant"]
    rows = []
    for name in (*BINARY, *LABELS, *NUMBER, *OWN):
        if name not in now:
            continue
        new, old = cells(now[name]), cells(before[name])
        for epsilon in sorted({epsilon for _, epsilon in new}):
            shown = [
                f"{new[method, epsilon][0]:.3g} ({new[method, epsilon][1]:.1g})"
                if (method, epsilon) in new
                else ""
                for method in ("corr", "standard", "semi")
            ]
            former = old["standard", epsilon][0]
            constant = now[name]["constant_excess"]
            rows.append(
                [name, f"{epsilon:g}", *shown, f"{former:.3g}", f"{constant:.3g}"]
            )
    lines = ["### Excess risk, mean (standard error)", "", markdown_table(header, rows)]
    header = ["tables", "epsilon", "corr / standard before", "corr / standard"]
    header += ["standard / standard before", "semi / standard before"]
    rows = []
    for title, names in (
        ("five binary", BINARY),
        ("more labels", LABELS),
        ("numbers, foreign", NUMBER[:2]),
    ):
        names = tuple(name for name in names if name in now)
        for epsilon in (0.1, 0.3, 1.0, 3.0) if names else ():
            excess = {
                method: [_mean(run[name], source, epsilon) for name in names]
                for method, source, run in (
                    ("corr", "corr", now),
                    ("standard", "standard", now),
                    ("semi", "semi", now),
                    ("before", "standard", before),
                )
            }
            shown = [
                _ratio(excess[above], excess[below])
                for above, below in (
                    ("corr", "before"),
                    ("corr", "standard"),
                    ("standard", "before"),
                    ("semi", "before"),
                )
            ]
            rows.append([title, f"{epsilon:g}", *shown])
    lines += ["### Ratios, geometric means", "", markdown_table(header, rows)]
    lines += ["### Predicted and measured", "", *_calibration(now)]
    return "\n".join(lines) + "\n"


def _calibration(now: dict[str, Any]) -> list[str]:
    pairs, right, differing = [], 0, 0
    for name in now:
        new = cells(now[name])
        for (method, epsilon), (mean, error, row) in new.items():
            if row["noise"] != "constant":
                pairs.append((row["predicted"], mean))
            if method != "corr" or ("standard", epsilon) not in new:
                continue
            other, others_error, other_row = new["standard", epsilon]
            if abs(mean - other) > 2 * math.hypot(error, others_error):
                differing += 1
                right += (row["predicted"] < other_row["predicted"]) == (mean < other)
    close = sum(1 for p, m in pairs if m > 0 and 0.5 <= p / m <= 2)
    guess = geometric_mean([m for _, m in pairs if m > 0])
    fixed = sum(1 for _, m in pairs if m > 0 and 0.5 <= guess / m <= 2)
    return [
        f"{len(pairs)} cells: predicted within a factor of 2 of measured in "
        f"{close / len(pairs):.0%} of them, the best fixed guess in "
        f"{fixed / len(pairs):.0%}. Of {differing} pairs of cells in which corr and "
        f"standard differ by more than two standard errors, the prediction has the "
        f"order of {right} right.",
    ]


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(BEFORE.read_text()), json.loads(NOW.read_text())))
