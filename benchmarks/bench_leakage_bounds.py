"""How tight leakage bounds are, and whether they hold as often as they say.

``python benchmarks/bench_leakage_bounds.py --save`` writes
``docs/results/leakage_bounds.json`` and the tables made from it: Adult with the
tutorial's policy, seven foreign tables with a fifth of their rows public, and coverage
in twenty settings, of noisy and of public rows. ``--parts`` runs some of them and keeps
the rest. Tables are read from CORRDP_DATA_DIR and never committed.
"""

import argparse
import json
from typing import Any

import numpy as np
from leakage_floor import least_mean_upper
from rule_tables import FOREIGN_BINARY, FOREIGN_NUMBER, folder, foreign_parts
from saved_tables import RESULTS, markdown_table

from corrdp.leakage import (
    count_codes,
    count_layout,
    estimate_leakage,
    iter_codes,
    leakage_targets,
    metric_named,
    plan_leakage_release,
    plug_in_leakage,
    sampling_margin,
    table_words,
    total_variation,
)
from corrdp.leakage._bounds import shared_quantile
from corrdp.leakage._two_samples import searched_upper
from corrdp.leakage.release._noise import noisy_leakages, release_tables
from corrdp.leakage.release._request import LeakageRequest
from corrdp.policy import CategoryDomain, Feature, NumberDomain, Policy

SHARES = (0.3, 0.1)
BETAS = (0.5, 0.2, 0.05)
REPETITIONS = 200

ADULT = {
    "workclass": (
        "? Federal-gov Local-gov Never-worked Private Self-emp-inc Self-emp-not-inc "
        "State-gov Without-pay"
    ),
    "marital-status": (
        "Divorced Married-AF-spouse Married-civ-spouse Married-spouse-absent "
        "Never-married Separated Widowed"
    ),
    "race": "Amer-Indian-Eskimo Asian-Pac-Islander Black Other White",
    "gender": "Female Male",
}


def adult_policy() -> Policy:
    """Return the policy of the tutorial."""

    def feature(name: str, domain: Any) -> Feature:
        sensitive = name in ("age", "marital-status")
        return Feature(name, "sensitive" if sensitive else "insensitive", domain)

    return Policy(
        (
            feature("age", NumberDomain(10, 100, bins=8)),
            *(
                feature(name, CategoryDomain(tuple(levels.split())))
                for name, levels in ADULT.items()
            ),
            feature("educational-num", NumberDomain(0, 18, bins=8)),
            feature("hours-per-week", NumberDomain(0, 100, bins=8)),
        )
    )


def adult(seeds: int = 10) -> list[dict[str, Any]]:
    """Return bounds and exact values of Adult, one row per share, seed, feature."""
    import pandas as pd

    policy = adult_policy()
    frame = pd.read_csv(folder() / "adult.csv.gz", keep_default_na=False)
    rows = []
    for share in SHARES:
        for seed in range(seeds):
            found = estimate_leakage(
                frame, policy, epsilon=share, delta=1e-6, random_state=seed
            )
            exact = exact_values(frame, found.policy_for(policy))
            apart = exact_values(frame, policy)
            rows += [
                {
                    "share": share,
                    "seed": seed,
                    "feature": name,
                    "upper": value.upper,
                    "exact": exact[name],
                    "exact_apart": apart[name],
                    "joined": name in found.joined,
                }
                for name, value in found.features.items()
            ]
    return rows


def exact_values(frame: Any, policy: Policy) -> dict[str, float]:
    found = estimate_leakage(frame, policy, source="in_sample", research=True)
    return {name: value.estimate for name, value in found.features.items()}


def foreign() -> list[dict[str, Any]]:
    """Return mean bounds from a fifth of the rows: by McDiarmid, and as now."""
    rows = []
    for name in (*FOREIGN_BINARY, *FOREIGN_NUMBER):
        frame, policy = foreign_parts(name)
        public = frame[: len(frame) // 5]
        before = mcdiarmid_uppers(public, policy)
        apart = estimate_leakage(public, policy, source="public", join_levels=False)
        joined = estimate_leakage(public, policy, source="public", join_levels=True)
        exact = exact_values(frame, policy)
        exact_joined = exact_values(frame, joined.policy_for(policy))
        known, floors = limits(frame, public, joined.policy_for(policy))
        of = {
            "before": before,
            "known": known,
            "floor": {name: floor for name, (floor, _) in floors.items()},
            "apart": {name: found.upper for name, found in apart.features.items()},
            "joined": {name: found.upper for name, found in joined.features.items()},
            "exact": exact,
            "exact_joined": exact_joined,
        }
        means = {
            key: round(float(np.mean(list(values.values()))), 5)
            for key, values in of.items()
        }
        errors = [error for _, error in floors.values()]
        means["floor_error"] = round(float(np.linalg.norm(errors)) / len(errors), 5)
        counts = {"n_rows": len(public), "n_features": len(joined.features)}
        rows.append({"table": name, **counts, **means})
    return rows


def limits(
    frame: Any, public: Any, policy: Policy
) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """Return bounds for the true pair and set, known in advance, and the floor of all.

    The floor comes with its standard error. Levels are joined already. Truth is what
    all rows tell.
    """
    counted, whole = exact_tables(public, policy), exact_tables(frame, policy)
    beta = 1e-3 / len(counted)
    known, floor = dict.fromkeys(counted, 0.0), dict.fromkeys(counted, (0.0, 0.0))
    for name, table in counted.items():
        laws = whole[name] / np.maximum(whole[name].sum(axis=1, keepdims=True), 1)
        sizes = table.sum(axis=1)
        if len(sizes) < 2:
            continue
        floor[name] = least_mean_upper(laws, sizes, failure_probability=beta)
        distances = metric_named("total_variation").pairwise(laws, ())
        first, second = np.unravel_index(np.argmax(distances), distances.shape)
        if not sizes[first] or not sizes[second]:
            known[name] = 1.0
            continue
        inside = laws[first] > laws[second]
        halves = [
            np.array([table[value][inside].sum(), table[value][~inside].sum()])
            for value in (first, second)
        ]
        weights = [np.array(1 / np.sqrt(half.sum())) for half in halves]
        quantile = shared_quantile(*weights, failure_probability=beta)
        known[name] = searched_upper(*halves, float(quantile))
    return known, floor


def exact_tables(frame: Any, policy: Policy) -> dict[str, np.ndarray]:
    """Return the counts of every insensitive feature against the sensitive cells."""
    layout = count_layout(policy, leakage_targets(policy))
    tables = count_codes(iter_codes(frame, policy, layout.features), layout).tables
    return {
        shape.name: table for shape, table in zip(layout.shapes, tables, strict=True)
    }


def mcdiarmid_uppers(frame: Any, policy: Policy) -> dict[str, float]:
    """Return the bounds that Theorem 1 gave before: levels apart, McDiarmid."""
    tables = exact_tables(frame, policy)
    uppers = {}
    for name, table in tables.items():
        sizes = table.sum(axis=1).astype(float)
        if not sizes.all():
            uppers[name] = 1.0
            continue
        margin = sampling_margin(sizes, failure_probability=1e-3 / len(tables))
        laws = table / sizes[:, None]
        pairs = [
            total_variation(laws[i], laws[j]) + margin[i, j]
            for i in range(len(laws))
            for j in range(i)
        ]
        uppers[name] = min(1.0, max(pairs, default=0.0))
    return uppers


def settings() -> dict[str, tuple[np.ndarray, int, float]]:
    """Return joint laws of s and u, rows, and the epsilon of the release."""
    rng = np.random.default_rng(17)

    def law(conditionals: Any, values: Any) -> np.ndarray:
        return (np.asarray(conditionals) * np.asarray(values)[:, None]).T

    def shares(count: int, concentration: float) -> np.ndarray:
        return rng.dirichlet(np.full(count, concentration))

    def random(n_cells: int, n_values: int, spread: float, sizes: Any) -> np.ndarray:
        rows = rng.dirichlet(np.full(n_cells, spread), size=n_values)
        return law(rows, sizes)

    rare = [0.6, 0.37, 0.02, 0.006, 0.004]
    found = {
        "two cells, two values": (law([[0.7, 0.3], [0.4, 0.6]], [0.5, 0.5]), 3000, 1.0),
        "independent": (law([[0.2, 0.8]] * 3, [0.3, 0.3, 0.4]), 3000, 0.5),
        "exclusive or": (law([[0.5, 0.5]] * 2, [0.5, 0.5]), 2000, 1.0),
        "diagonal": (np.eye(4) / 4, 2000, 1.0),
        "nearly diagonal": (0.9 * np.eye(4) / 4 + 0.1 / 16, 4000, 1.0),
        "rare levels, alike": (law([[0.5, 0.3, 0.2]] * 5, rare), 8000, 0.5),
        "rare levels, apart": (random(4, 5, 0.5, rare), 8000, 0.5),
        "rare levels, many rows": (random(6, 5, 1.0, rare), 60_000, 0.3),
        "one giveaway level": (
            law([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]], [0.6, 0.39, 0.01]),
            8000,
            0.5,
        ),
    }
    for n_cells in (10, 50, 200):
        name = f"{n_cells} cells"
        found[f"sparse, {name}"] = (random(n_cells, 4, 0.1, [0.25] * 4), 20_000, 0.5)
        found[f"dense, {name}"] = (random(n_cells, 4, 5.0, [0.25] * 4), 20_000, 0.5)
        flat = np.full((2, n_cells), 1 / n_cells)
        found[f"flat, {name}"] = (law(flat, [0.3, 0.7]), 20_000, 0.5)
    found["many values"] = (random(5, 12, 1.0, shares(12, 0.7)), 20_000, 0.5)
    sign = np.where(np.arange(60) % 2, 1.0, -1.0)
    shifted = (1 + 0.3 * np.stack([sign, -sign])) / 60
    found["small shift in every cell"] = (law(shifted, [0.5, 0.5]), 20_000, 1.0)
    assert len(found) == 20, len(found)
    return found


def coverage(
    joint: np.ndarray, n_rows: int, epsilon: float, beta: float, repetitions: int
) -> dict[str, float]:
    """Return how often the bound of u fails, and how far it is above the truth."""
    n_cells, n_values = joint.shape
    policy = setting_policy({"s": n_cells, "u": n_values, "v": 3})
    layout = count_layout(policy, leakage_targets(policy))
    plan = plan_leakage_release(policy, epsilon=epsilon, delta=1e-6)
    request = LeakageRequest(
        data=None,
        policy=policy,
        estimator=None,
        metric=metric_named("total_variation"),
        feature_failure_probability=beta,
        max_cells=1,
        n_threads=1,
        random_state=None,
        joinable=frozenset({"u", "v"}),
    )
    rng = np.random.default_rng(18)
    third = np.array([0.5, 0.3, 0.2])
    cube = (joint[:, :, None] * third).ravel()
    failed, excess, ones = 0, [], 0
    for _ in range(repetitions):
        counts = rng.multinomial(n_rows, cube).reshape(n_cells, n_values, 3)
        tables = [counts.sum(axis=2).T, counts.sum(axis=1).T]
        released = release_tables(
            layout.shapes,
            tables,
            plan,
            rng,
            grouping=lambda shape, sizes, scale: request.groups(
                shape, sizes, noise_scale=scale, n_rows=n_rows
            ),
        )
        upper = noisy_leakages(request, layout, released, n_rows)["u"].upper
        truth = joined_truth(joint, released["u"].groups)
        failed += upper < truth - 1e-12
        excess.append(upper - truth)
        ones += upper >= 1.0
    return {
        "failed": failed / repetitions,
        "excess": float(np.mean(excess)),
        "ones": ones / repetitions,
    }


def setting_policy(n_codes: dict[str, int]) -> Policy:
    return Policy(
        tuple(
            Feature(
                name,
                "sensitive" if name == "s" else "insensitive",
                CategoryDomain(tuple(f"v{code}" for code in range(count))),
            )
            for name, count in n_codes.items()
        )
    )


def public_coverage(
    joint: np.ndarray, n_rows: int, beta: float, repetitions: int
) -> dict[str, float]:
    """Return the same for exact counts of rows that are public, levels apart."""
    n_cells, n_values = joint.shape
    words = table_words(setting_policy({"s": n_cells, "u": n_values}), ("u",))
    truth = joined_truth(joint, [(value,) for value in range(n_values)])
    rng = np.random.default_rng(19)
    uppers = []
    for _ in range(repetitions):
        counts = rng.multinomial(n_rows, joint.ravel()).reshape(joint.shape).T
        found = plug_in_leakage(
            counts,
            words,
            metric=metric_named("total_variation"),
            failure_probability=beta,
        )
        uppers.append(found.upper)
    excess = np.array(uppers, dtype=float) - truth
    return {
        "failed": float(np.mean(excess < -1e-12)),
        "excess": float(excess.mean()),
        "ones": float(np.mean(np.array(uppers) >= 1.0)),
    }


def joined_truth(joint: np.ndarray, groups: Any) -> float:
    """Return the leakage of the feature with its groups as values."""
    together = [joint[:, list(group)].sum(axis=1) for group in groups]
    laws = [law / law.sum() for law in together]
    return max(
        float(np.abs(first - second).sum()) / 2 for first in laws for second in laws
    )


def run_coverage(repetitions: int = REPETITIONS) -> list[dict[str, Any]]:
    return [
        {
            "setting": name,
            "beta": beta,
            **coverage(joint, n_rows, epsilon, beta, repetitions),
        }
        for name, (joint, n_rows, epsilon) in settings().items()
        for beta in BETAS
    ]


def run_public_coverage(repetitions: int = REPETITIONS) -> list[dict[str, Any]]:
    """Return coverage with a tenth of the rows of every setting, public."""
    return [
        {
            "setting": name,
            "beta": beta,
            **public_coverage(joint, n_rows // 10, beta, repetitions),
        }
        for name, (joint, n_rows, _) in settings().items()
        for beta in BETAS
    ]


def render(saved: dict[str, Any]) -> str:
    """Return the tables of the page, from the saved run alone."""
    header = ["Adult, epsilon", "feature", "exact, levels as declared"]
    header += ["exact, joined", "bound, mean", "largest"]
    rows = []
    for share in SHARES:
        own = [row for row in saved["adult"] if row["share"] == share]
        for name in dict.fromkeys(row["feature"] for row in own):
            cell = [row for row in own if row["feature"] == name]
            uppers = [row["upper"] for row in cell]
            exact = np.mean([row["exact"] for row in cell])
            numbers = (cell[0]["exact_apart"], exact, np.mean(uppers), max(uppers))
            rows.append([f"{share:g}", name, *(f"{value:.3f}" for value in numbers)])
        excess = np.mean([row["upper"] - row["exact"] for row in own])
        rows.append([f"{share:g}", "*mean excess*", "", "", f"{excess:.3f}", ""])
    tables = [markdown_table(header, rows)]
    header = ["table, a fifth public", "rows", "features", "bound before", "apart"]
    header += ["joined", "exact, apart", "exact, joined", "excess left"]
    header += ["if pair and set were known", "least mean of any bound"]
    rows = []
    for cell in saved["foreign"]:
        left = [
            (cell[key] - cell["exact_joined"]) / (cell["before"] - cell["exact"])
            for key in ("joined", "known", "floor")
        ]
        shown = [cell["n_rows"], cell["n_features"]]
        keys = ("before", "apart", "joined", "exact", "exact_joined")
        means = [f"{cell[key]:.3f}" for key in keys]
        parts = [f"{part:.0%}" for part in left]
        rows.append([cell["table"], *map(str, shown), *means, *parts])
    tables.append(markdown_table(header, rows))
    for part, title in (("coverage", "setting"), ("public", "setting, public rows")):
        rows = []
        for name in dict.fromkeys(row["setting"] for row in saved[part]):
            cells = [row for row in saved[part] if row["setting"] == name]
            told = [f"{row['failed']:.3f} (+{row['excess']:.2f})" for row in cells]
            rows.append([name, *told])
        header = [title, *(f"beta {b:g}" for b in BETAS)]
        tables.append(markdown_table(header, rows))
    return "\n".join(tables)


PARTS: dict[str, Any] = {
    "adult": adult,
    "foreign": foreign,
    "coverage": run_coverage,
    "public": run_public_coverage,
}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    chosen = parser.parse_args()
    path = RESULTS / "leakage_bounds.json"
    saved = json.loads(path.read_text()) if path.exists() else {}
    if chosen.save:
        for part in chosen.parts:
            counted = part in ("coverage", "public")
            saved[part] = PARTS[part](*[chosen.repetitions] * counted)
            path.write_text(json.dumps(saved) + "\n")
    text = render(saved)
    if chosen.save or chosen.render:
        path.with_suffix(".inc").write_text(text)
    print(text)
