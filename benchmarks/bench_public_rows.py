"""Private training from a public model against private and public rows alone.

``python benchmarks/bench_public_rows.py --save FILE [--tables ...]`` fits with and
without the public fifth of every table, with paired seeds, and saves one row per pair;
``--render`` writes the table of ``docs/public_rows.md`` from the saved run.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from bench_additive import kinds, scores
from rule_tables import FOREIGN_BINARY, FOREIGN_NUMBER, MULTINOMIAL, load_table
from saved_tables import markdown_table, measure_tables, read_figures

from corrdp.estimators._public_rows import PublicRows

TABLES = (*FOREIGN_BINARY, *FOREIGN_NUMBER, *MULTINOMIAL)
EPSILONS = (0.1, 0.5, 1.0, 3.0)
N_SEEDS = 10


def measure(
    name: str, epsilons: Sequence[float], seeds: Sequence[int]
) -> dict[str, Any]:
    """Return everything measured on one table.

    What `fit` returns with public rows is an average of two models, of which one is
    the same for all seeds and the other that of a fit without them; so fit once.
    """
    table = load_table(name)
    estimator = kinds(table)["linear"]
    rows: list[dict[str, Any]] = []
    public: dict[str, float] = {}
    for epsilon in epsilons:
        share = None
        for seed in seeds:
            options = {"epsilon": epsilon, "delta": table.delta, "random_state": seed}
            model = estimator(table.policy, **options).fit(table.private)
            row = {"private": scores(model, table.test)["score"]}
            own = vars(model)["_coef"], vars(model)["_intercept"]
            if share is None:  # the first seed is fitted as a user would
                both = estimator(table.policy, **options)
                both.fit(table.private, public_rows=table.public)
                known = PublicRows.read(table.public, table.policy)
                alone = known.model(both.policy_, both.loss_of(both.policy_))
                share = alone.share(model.plan_.prediction.compared)
                mixed = alone.mixed(*own, share)
                if not np.allclose(vars(both)["_coef"], mixed[0]):
                    raise SystemExit(f"{name}: the average is not what fit returns")
            for key, parts in (
                ("both", alone.mixed(*own, share)),
                ("public", (alone.coef, alone.intercept)),
            ):
                vars(model).update(_coef=parts[0], _intercept=parts[1])
                row[key] = scores(model, table.test)["score"]
            public = {"score": row.pop("public")}
            rows.append({"epsilon": epsilon, "seed": seed, "share": share, **row})
    return {
        "n_rows": len(table.private),
        "n_public": len(table.public),
        "public": public["score"],
        "rows": rows,
    }


def cells(run: dict[str, Any]) -> list[dict[str, float]]:
    """Return the three scores, and how far both together pass the better one."""
    found = []
    for epsilon in sorted({row["epsilon"] for row in run["rows"]}):
        own = [row for row in run["rows"] if row["epsilon"] == epsilon]
        private, both = (np.array([r[key] for r in own]) for key in ("private", "both"))
        if private.mean() > run["public"]:
            best = private
        else:
            best = np.full(private.size, run["public"])
        gain = both - best
        found.append(
            {
                "epsilon": epsilon,
                "private": float(private.mean()),
                "public": run["public"],
                "both": float(both.mean()),
                "gain": float(gain.mean()),
                "error": float(gain.std(ddof=1) / np.sqrt(gain.size)),
            }
        )
    return found


def page(saved: dict[str, Any]) -> str:
    """Return the table of the documentation as Markdown."""
    header = ["table", "private rows", "public rows", "epsilon", "private alone"]
    header += ["public alone", "both", "both minus the better one (standard error)"]
    rows = [
        [
            name,
            str(run["n_rows"]),
            str(run["n_public"]),
            f"{cell['epsilon']:g}",
            *(f"{cell[kind]:.4f}" for kind in ("private", "public", "both")),
            f"{cell['gain']:+.4f} ({cell['error']:.4f})",
        ]
        for name, run in saved.items()
        for cell in cells(run)
    ]
    return markdown_table(header, rows)


def run() -> list[dict]:
    """Return the figures of the saved run, for the page of benchmarks."""
    saved = read_figures("public_rows")
    return [
        {
            "name": f"{name}, epsilon {cell['epsilon']:g}, public and private rows",
            "value": cell["gain"],
            "unit": "over the better of the two alone",
            "target": "at least -2 standard errors",
            "note": f"standard error {cell['error']:.4f}",
        }
        for name, run in saved.items()
        for cell in cells(run)
    ]


if __name__ == "__main__":
    measure_tables(
        "public_rows", measure, page, tables=TABLES, epsilons=EPSILONS, n_seeds=N_SEEDS
    )
