"""Error of single statistics beside OpenDP and diffprivlib, under replace-one.

Every library answers one question at a time with the whole epsilon. Noise is drawn,
not computed from formulas. Where a library speaks of adding or removing a row,
replacing one is two such changes: OpenDP is given a distance of 2, the histogram of
diffprivlib half of epsilon. Writes docs/results/statistics.json and its table.
Run ``python benchmarks/bench_statistics.py``; ``--render`` only makes the table,
``--quantiles`` measures our own medians alone and keeps the rest.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
from saved_tables import markdown_table

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests")]
RESULTS = ROOT / "docs" / "results" / "statistics.json"
TABLE = RESULTS.with_suffix(".inc")
EPSILON, N_ROWS, N_RUNS = 0.1, 4_000, 2_000
N_DRAWS = 20_000  # of our own quantiles, which are quick to draw again
ASKS = {
    "count() where smoker": "count",
    "sum(income)": "sum",
    "mean(income)": "mean",
    "variance(income)": "variance",
    "histogram(income)": "histogram",
    "count() by sector, sex": "table",
    "median(income)": "median",
    "mean(age)": "mean_age",
    "median(age)": "median_age",
}


def policies():
    """Return the policy with its roles, and with every column sensitive."""
    import dataclasses
    import tempfile

    from corrdp.policy import Feature, Policy
    from queries_people import POLICY_TEXT

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.toml"
        path.write_text(POLICY_TEXT, encoding="utf-8")
        roles = Policy.from_file(path)
    sensitive = tuple(Feature(f.name, "sensitive", f.domain) for f in roles.features)
    return dataclasses.replace(roles, features=sensitive), roles


def truths(table):
    return {
        "count": [table.smoker.sum()],
        "sum": [table.income.sum()],
        "mean": [table.income.mean()],
        "variance": [table.income.var(ddof=0)],
        "histogram": np.histogram(table.income, 10, (0, 100))[0],
        "table": table.groupby(["sector", "sex"])
        .size()
        .loc[["industry", "trade", "office"]],
        "median": [table.income.quantile(0.5, interpolation="lower")],
        "mean_age": [table.age.mean()],
        "median_age": [table.age.quantile(0.5, interpolation="lower")],
    }


def error_of(draws, truth):
    """Return the root mean square over draws and cells."""
    return float(np.sqrt(np.mean((np.asarray(draws) - np.asarray(truth)) ** 2)))


def own_errors(policy, table, asks=ASKS):
    from corrdp.policy import Budget
    from corrdp.queries import plan_queries
    from corrdp.queries._release import answers_of

    errors = {}
    for ask, name in asks.items():
        plan = plan_queries(
            policy, [ask], budget=Budget(epsilon=EPSILON, delta=0.0), n_rows=N_ROWS
        )
        if name.startswith("median"):
            draws = [[value] for value in drawn_quantiles(plan, policy, table)]
            errors[name] = error_of(draws, truths(table)[name])
            continue
        exact = np.concatenate([m.evaluate(policy, table) for m in plan.moments])
        noise = plan.noise.draw_runs(N_RUNS, np.random.default_rng(3))
        reach = plan.noise.radius(0.05)
        draws = [answers_of(plan, exact + row, reach, 0.05)[0].values for row in noise]
        errors[name] = error_of(draws, truths(table)[name])
    return errors


def drawn_quantiles(plan, policy, table, runs=N_DRAWS):
    """Draw one planned quantile many times; the ranks of the table are read once."""
    from corrdp.mechanisms.noise import flipped_choices
    from corrdp.queries._choices import choice_rate

    (moment,), (scale,) = plan.moments, plan.noise.scales
    grid = moment.grid(policy, scale=scale, n_rows=N_ROWS)
    (scores,) = moment.scores(policy, table, grid)
    generator, rate = np.random.default_rng(3), choice_rate(scale)
    return [
        grid.value(grid.first + place)
        for _ in range(runs // 100)
        for place in flipped_choices(
            scores, rate=rate, size=100, generator=generator
        ).tolist()
    ]


def opendp_errors(table):
    import opendp.prelude as dp

    dp.enable_features("contrib")
    income = table.income.astype(float).tolist()
    smoker = table.smoker.astype(float).tolist()
    numbers = (
        dp.vector_domain(dp.atom_domain(bounds=(0.0, 100.0), nan=False), size=N_ROWS),
        dp.symmetric_distance(),
    )
    flags = (
        dp.vector_domain(dp.atom_domain(bounds=(0.0, 1.0), nan=False), size=N_ROWS),
        dp.symmetric_distance(),
    )
    texts = dp.vector_domain(dp.atom_domain(T=str)), dp.symmetric_distance()
    bins = np.minimum((table.income / 10).astype(int), 9).astype(str).tolist()
    cells = (table.sector + table.sex).tolist()

    def by_categories(names):
        return texts >> dp.t.then_count_by_categories(
            categories=names, null_category=False, TOA=int
        )

    asked = {
        "count": (flags >> dp.t.then_sum(), smoker),
        "sum": (numbers >> dp.t.then_sum(), income),
        "mean": (numbers >> dp.t.then_mean(), income),
        "mean_age": (numbers >> dp.t.then_mean(), table.age.tolist()),
        "variance": (numbers >> dp.t.then_variance(ddof=0), income),
        "histogram": (by_categories([str(b) for b in range(10)]), bins),
        "table": (
            by_categories(
                [a + b for a in ("industry", "trade", "office") for b in "fm"]
            ),
            cells,
        ),
    }
    errors = {}
    for name, (query, data) in asked.items():
        scale = dp.binary_search_param(
            lambda s, query=query: query >> dp.m.then_laplace(s), d_in=2, d_out=EPSILON
        )
        release = query >> dp.m.then_laplace(scale)
        draws = [release(data) for _ in range(N_RUNS)]
        errors[name] = error_of(draws, truths(table)[name])
    candidates = np.linspace(0.0, 100.0, 1001).tolist()
    unsized = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=N_ROWS)
    scores = (unsized, dp.symmetric_distance()) >> (
        dp.t.then_quantile_score_candidates(candidates, 0.5)
    )

    def chosen(scale):
        return scores >> dp.m.then_noisy_max(dp.max_divergence(), scale, negate=True)

    scale = dp.binary_search_param(chosen, d_in=2, d_out=EPSILON, T=float)
    for name, data in (("median", income), ("median_age", table.age.tolist())):
        release = chosen(scale)
        draws = [[candidates[release(data)]] for _ in range(N_RUNS)]
        errors[name] = error_of(draws, truths(table)[name])
    return errors


def diffprivlib_errors(table):
    import types

    # Its models, which are not used here, do not import with newer scikit-learn.
    sys.modules["diffprivlib.models"] = types.ModuleType("diffprivlib.models")
    from diffprivlib import tools

    options = {"epsilon": EPSILON}
    income, age = table.income.to_numpy(), table.age.to_numpy()
    cells = table.sector.map({"industry": 0, "trade": 1, "office": 2}) * 2
    cells = (cells + (table.sex == "m")).to_numpy().astype(float)
    half = {"epsilon": EPSILON / 2}  # its histogram is for adding or removing a row
    asked = {
        "count": lambda: [tools.count_nonzero(table.smoker.to_numpy(), **options)],
        "sum": lambda: [tools.sum(income, bounds=(0, 100), **options)],
        "mean": lambda: [tools.mean(income, bounds=(0, 100), **options)],
        "variance": lambda: [tools.var(income, bounds=(0, 100), **options)],
        "histogram": lambda: tools.histogram(income, bins=10, range=(0, 100), **half)[
            0
        ],
        "table": lambda: tools.histogram(cells, bins=6, range=(-0.5, 5.5), **half)[0],
        "median": lambda: [tools.median(income, bounds=(0, 100), **options)],
        "mean_age": lambda: [tools.mean(age, bounds=(0, 100), **options)],
        "median_age": lambda: [tools.median(age, bounds=(0, 100), **options)],
    }
    return {
        name: error_of([ask() for _ in range(N_RUNS)], truths(table)[name])
        for name, ask in asked.items()
    }


def run():
    """Measure, save and return the comparison."""
    from queries_people import people_table

    warnings.simplefilter("ignore")
    table = people_table(N_ROWS)
    ordinary, roles = policies()
    earlier = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    saved = {
        "epsilon": EPSILON,
        "rows": N_ROWS,
        "runs": N_RUNS,
        "corrdp, all sensitive": own_errors(ordinary, table),
        "corrdp, roles": own_errors(roles, table),
    }
    for name, compute in (
        ("OpenDP", opendp_errors),
        ("diffprivlib", diffprivlib_errors),
    ):
        try:
            saved[name] = compute(table)
        except ImportError as error:
            print(f"{name}: {error}; its earlier run is kept", file=sys.stderr)
            saved |= {name: earlier[name]} if name in earlier else {}
    RESULTS.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")
    return saved


def run_quantiles():
    """Measure our own medians, and keep what else was saved."""
    from queries_people import people_table

    saved = json.loads(RESULTS.read_text())
    medians = {ask: name for ask, name in ASKS.items() if "median" in name}
    names = ("corrdp, all sensitive", "corrdp, roles")
    for name, policy in zip(names, policies(), strict=True):
        saved[name] |= own_errors(policy, people_table(N_ROWS), medians)
    RESULTS.write_text(json.dumps(saved, indent=1) + "\n", encoding="utf-8")


def render():
    """Write the table of the saved comparison."""
    TABLE.write_text(table_text(json.loads(RESULTS.read_text())), encoding="utf-8")


def table_text(saved):
    """Return the table: errors, and the ratio to the best of the others."""
    rivals = [name for name in ("OpenDP", "diffprivlib") if name in saved]
    names = ["corrdp, all sensitive", *rivals, "corrdp, roles"]
    what = f"epsilon {saved['epsilon']:g}, {saved['rows']} rows"
    header = [f"root mean square error, {what}", *names]
    header += ["all sensitive / best other", "roles / all sensitive"]
    lines = []
    for ask, name in ASKS.items():
        own = saved["corrdp, all sensitive"][name]
        best = min((saved[rival][name] for rival in rivals), default=float("nan"))
        cells = [f"{saved[column][name]:.3g}" for column in names]
        ratio = saved["corrdp, roles"][name] / own
        lines.append([f"`{ask}`", *cells, f"{own / best:.2f}", f"{ratio:.2f}"])
    return markdown_table(header, lines)


if __name__ == "__main__":
    if "--quantiles" in sys.argv:
        run_quantiles()
    elif "--render" not in sys.argv:
        run()
    render()
