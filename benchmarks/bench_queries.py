"""Error of each variant on Adult, beside other libraries, and speed of releases.

Writes docs/results/queries_adult.json and the table made from it.
Run ``python benchmarks/bench_queries.py``; ``--render`` only makes the table.
"""

import json
import math
import os
import sys
import time
from pathlib import Path

import numpy as np
from saved_tables import markdown_table

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results" / "queries_adult.json"
TABLE = RESULTS.with_suffix(".inc")
os.environ.setdefault("CORRDP_DATA_DIR", str(ROOT.parent / "shared" / "data"))

EPSILONS = (0.1, 1.0)
DELTA = 1e-6
SCALARS = 1_000_000
TARGET_SCALARS = "1e6 a minute"


def adult():
    from corrdp.datasets._paper import load_adult

    return load_adult()


def questions(policy):
    """Return the means of all features: shares of rows for categories."""
    from corrdp.policy import CategoryDomain

    return [
        f'histogram("{f.name}")'
        if isinstance(f.domain, CategoryDomain)
        else f'mean("{f.name}")'
        for f in policy.features
    ]


def relative_errors(plan):
    """Return the standard deviation of each feature's mean as a share of its range."""
    spans = np.array([moment.span for moment in plan.moments], dtype=float)
    return np.sqrt(plan.noise.noise_variance) / spans / plan.n_rows


def own_rows(table, epsilon):
    from corrdp.mechanisms import plan_queries
    from corrdp.policy import Budget

    chosen = [
        ("ordinary Laplace", "laplace", "ordinary", 0.0),
        ("`paper`", "laplace", "paper", 0.0),
        ("`tight`", "laplace", "tight", 0.0),
        ("`optimal`, worst coordinate", "laplace", "optimal", 0.0),
        ("`optimal`", "laplace", "optimal", 0.0),
        ("ordinary Gaussian", "gaussian", "ordinary", DELTA),
        ("`optimal` Gaussian", "gaussian", "optimal", DELTA),
    ]
    rows = []
    for name, kind, variant, delta in chosen:
        plan = plan_queries(
            table.policy,
            questions(table.policy),
            budget=Budget(epsilon=epsilon, delta=delta),
            n_rows=len(table.frame),
            kind=kind,
            variant=variant,
            objective="worst" if "worst" in name else "total",
        )
        rows.append(_row(name, epsilon, delta, relative_errors(plan), table.policy))
    return rows


def _row(name, epsilon, delta, errors, policy):
    sensitive = [feature.role == "sensitive" for feature in policy.features]
    return {
        "name": name,
        "epsilon": epsilon,
        "delta": delta,
        "sensitive": float(np.sqrt(np.mean(errors[sensitive] ** 2))),
        "insensitive": float(np.sqrt(np.mean(errors[np.logical_not(sensitive)] ** 2))),
        "all": float(np.sqrt(np.mean(errors**2))),
        "worst": float(errors.max()),
    }


def opendp_row(table, epsilon):
    """Ordinary replace-one DP with OpenDP: an equal share of epsilon per feature."""
    import opendp.prelude as dp

    from corrdp.policy import CategoryDomain

    dp.enable_features("contrib")
    n_rows, share = len(table.frame), epsilon / len(table.policy.features)
    errors = []
    for feature in table.policy.features:
        domain = feature.domain
        if isinstance(domain, CategoryDomain):
            space = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
            query = space >> dp.t.then_count_by_categories(
                categories=list(domain.categories), null_category=False, TOA=int
            )
            values, width = table.frame[feature.name].astype(str).tolist(), n_rows
        else:
            bounds = (float(domain.lower), float(domain.upper))
            rows = dp.vector_domain(
                dp.atom_domain(bounds=bounds, nan=False), size=n_rows
            )
            query = (rows, dp.symmetric_distance()) >> dp.t.then_mean()
            clipped = table.frame[feature.name].astype(float).clip(*bounds)
            values, width = clipped.tolist(), bounds[1] - bounds[0]
        scale = dp.binary_search_param(
            lambda s, query=query: query >> dp.m.then_laplace(s), d_in=2, d_out=share
        )
        (query >> dp.m.then_laplace(scale))(values)  # it does answer
        errors.append(math.sqrt(2.0) * scale / width)
    name = "OpenDP, equal shares"
    return _row(name, epsilon, 0.0, np.array(errors), table.policy)


def diffprivlib_row(table, epsilon):
    """Ordinary replace-one DP with diffprivlib: an equal share of epsilon."""
    from diffprivlib.mechanisms import Geometric, Laplace

    from corrdp.policy import CategoryDomain

    n_rows, share = len(table.frame), epsilon / len(table.policy.features)
    errors = []
    for feature in table.policy.features:
        if isinstance(feature.domain, CategoryDomain):
            variance = Geometric(epsilon=share, sensitivity=2).variance(0)
        else:
            variance = Laplace(epsilon=share, sensitivity=1.0).variance(0.0)
        errors.append(math.sqrt(variance) / n_rows)
    name = "diffprivlib, equal shares"
    return _row(name, epsilon, 0.0, np.array(errors), table.policy)


def other_rows(table, epsilon, broken):
    """Return what other libraries expect; remember in `broken` what cannot run."""
    rows = []
    for name, compute in (("OpenDP", opendp_row), ("diffprivlib", diffprivlib_row)):
        try:
            if name not in broken:
                rows.append(compute(table, epsilon))
        except ImportError as error:
            reason = error.msg.split(" (/")[0]
            broken[name] = f"does not import with what is installed: {reason}"
        if name in broken:
            rows.append({"name": name, "epsilon": epsilon, "missing": broken[name]})
    return rows


def measured_ratio(table):
    """Return drawn over planned error of the optimal variant: near 1."""
    from corrdp.mechanisms import answer_queries, plan_queries
    from corrdp.policy import Budget

    asks = ['mean("age")', 'mean("fnlwgt")']
    plan = plan_queries(
        table.policy,
        asks,
        budget=Budget(epsilon=1.0, delta=0.0),
        n_rows=len(table.frame),
    )
    widths = [73.0, 0.0]
    domain = table.policy.feature("fnlwgt").domain
    widths[1] = domain.upper - domain.lower
    truth = [
        table.frame[name].astype(float).clip(*bounds).mean()
        for name, bounds in (
            ("age", (17, 90)),
            ("fnlwgt", (domain.lower, domain.upper)),
        )
    ]
    squares = []
    for seed in range(60):
        result = answer_queries(
            table.frame, table.policy, asks, epsilon=1.0, random_state=seed
        )
        squares += [
            ((answer.value - exact) / width / error) ** 2
            for answer, exact, width, error in zip(
                result.answers, truth, widths, relative_errors(plan), strict=True
            )
        ]
    return math.sqrt(float(np.mean(squares)))


def release_seconds(kind):
    """Return the time of one release of a million scalars through the vector API."""
    from corrdp.accounting import Group
    from corrdp.mechanisms import Movement, plan_vector
    from corrdp.policy import Budget, Feature, NumberDomain, Policy

    policy = Policy((Feature("x", "sensitive", NumberDomain(0, 1)),))
    movement = Movement(
        (Group("scalars", SCALARS),),
        ("sensitive", "whole_record"),
        np.full((2, 1), 2**10),
        np.full((2, 1), 2**20),
    )
    plan = plan_vector(
        movement, policy=policy, budget=Budget(epsilon=1.0, delta=DELTA), kind=kind
    )
    values = np.linspace(0.0, 1.0, SCALARS)
    started = time.perf_counter()
    plan.release(values, grid=2.0**-10)
    return time.perf_counter() - started


def run() -> list[dict]:
    """Measure, save the comparison and return the rows of the benchmark page."""
    table = adult()
    compared: list[dict] = []
    broken: dict[str, str] = {}
    for epsilon in EPSILONS:
        compared += own_rows(table, epsilon) + other_rows(table, epsilon, broken)
    saved = {
        "rows": len(table.frame),
        "features": len(table.policy.features),
        "delta": DELTA,
        "measured_over_planned": measured_ratio(table),
        "compared": compared,
    }
    RESULTS.write_text(json.dumps(saved, indent=1) + "\n")
    render()
    rows = []
    for kind in ("laplace", "gaussian"):
        seconds = release_seconds(kind)
        rows.append(
            {
                "name": f"discrete {kind} scalars a minute, vector API",
                "value": SCALARS / seconds * 60.0,
                "unit": "scalars",
                "target": TARGET_SCALARS,
                "note": "one plan, one call, cryptographic generator",
            }
        )
    at_one = {row["name"]: row for row in compared if row["epsilon"] == 1.0}
    rows.append(
        {
            "name": "error of `optimal` over ordinary Laplace, Adult means, epsilon 1",
            "value": at_one["`optimal`"]["all"] / at_one["ordinary Laplace"]["all"],
            "unit": "ratio",
            "target": "below 1",
            "note": "root mean square over features, relative to their range",
        }
    )
    rows.append(
        {
            "name": "drawn over planned error, Adult, 120 answers",
            "value": saved["measured_over_planned"],
            "unit": "ratio",
            "target": "1 within 0.3",
            "note": "mean(age) and mean(fnlwgt), epsilon 1",
        }
    )
    for row in rows:
        print(f"{row['name']:<64} {row['value']:12.4g} {row['unit']}  {row['target']}")
    return rows


def render() -> None:
    """Write the table of the documentation from the saved run."""
    saved = json.loads(RESULTS.read_text())
    lines = [
        f"Adult, {saved['rows']:,} rows, means of all {saved['features']} features "
        "(shares of rows where a feature is a category); leakage as the paper prints "
        "it. Expected error: standard deviation of the noise as a share of the "
        "feature's range, times 10,000; root mean square over features. Gaussian rows "
        f"spend delta {saved['delta']:g}, all others none.",
        "",
    ]
    columns = ("sensitive", "insensitive", "all", "worst")
    rows = []
    for row in saved["compared"]:
        if "missing" in row:
            cells = [row["missing"], "", "", ""]
        else:
            cells = [f"{1e4 * row[key]:.3g}" for key in columns]
        rows.append([f"{row['epsilon']:g}", row["name"], *cells])
    table = markdown_table(["epsilon", "mechanism", *columns], rows)
    TABLE.write_text("\n".join([*lines, table]))


if __name__ == "__main__":
    if "--render" in sys.argv:
        render()
    else:
        run()
