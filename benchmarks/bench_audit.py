"""Audits in their long form: soundness, strength, tightness, attribute inference.

``python benchmarks/bench_audit.py`` runs everything and saves it; ``--render`` writes
the tables and the figure of the documentation from the saved run.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from saved_tables import RESULTS, markdown_table, read_figures, save_table

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
FIGURE = ROOT / "docs" / "figures" / "audit.svg"
CONFIDENCE = 0.99
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
N_RUNS = 200_000
N_RUNS_SMALL = 800_000  # at the smallest budget, where neighbors are hardest to tell
METHODS = ("nonprivate", "semi", "corr", "standard")


def run() -> list[dict]:
    parts = {
        "audit_claims": claims(),
        "audit_mutants": mutants(),
        "audit_training": training_code(),
        "audit_soundness": soundness(),
        "audit_attribute_inference": attribute_inference(),
    }
    for name, saved in parts.items():
        save(name, saved)
    render()
    rows = summary(parts)
    for row in rows:
        print(
            f"{row['name']:<58} {row['value']:10.4g} {row['unit']:<8} {row['target']}"
        )
    return rows


def save(name: str, saved: object) -> None:
    text = json.dumps(saved, indent=1, allow_nan=False)
    (RESULTS / f"{name}.json").write_text(text + "\n")


def summary(parts: dict) -> list[dict]:
    sensitive = [
        row
        for row in parts["audit_claims"]
        if row["class"] == "sensitive" and row["target"].startswith("gradients")
    ]
    bugs, sound = parts["audit_mutants"], parts["audit_soundness"]
    return [
        {
            "name": "sensitive class, audited over certified mu, worst epsilon",
            "value": min(row["tightness"] for row in sensitive),
            "unit": "ratio",
            "target": "at least 0.8",
            "note": "white box, full batch, logistic regression",
        },
        {
            "name": "planted bugs caught",
            "value": sum(bug["is_caught"] for bug in bugs) / len(bugs),
            "unit": "share",
            "target": "1",
            "note": f"{len(bugs)} bugs, joint confidence {CONFIDENCE}",
        },
        {
            "name": "slowest planted bug",
            "value": max(bug["seconds"] for bug in bugs),
            "unit": "s",
            "target": "below 300",
            "note": "search for neighbors included, one core",
        },
        {
            "name": "false alarms on correct mechanisms",
            "value": float(sound["n_violated"]),
            "unit": "",
            "target": "0 of 50",
            "note": f"{sound['n_challenges']} pairs, joint confidence {CONFIDENCE}",
        },
    ]


def claims() -> list[dict]:
    """Audit means, gradients and whole trainings of one policy at several budgets."""
    from audit_mutants import DELTA, audited_policy, mean_challenges, training_plan
    from corrdp.auditing import audit, descent_challenges, model_challenges

    policy = audited_policy()
    rows = []
    for epsilon in EPSILONS:
        plan = training_plan(policy, epsilon=epsilon, n_rows=2000)
        batched = (
            *mean_challenges(policy, epsilon=epsilon),
            *descent_challenges(
                plan, delta=DELTA, n_steps=2, name="gradients, white box"
            ),
        )
        whole = ()
        if epsilon == EPSILONS[-1]:
            whole = model_challenges(plan, delta=DELTA, n_steps=1, n_runs=1000)
        total = len(batched) + len(whole)
        shared = {"confidence": CONFIDENCE, "n_comparisons": total, "random_state": 1}
        n_runs = N_RUNS_SMALL if epsilon == min(EPSILONS) else N_RUNS
        results = list(audit(batched, n_runs=n_runs, **shared).results)
        if whole:
            results += audit(whole, **shared).results
        for result in results:
            row = {"epsilon": epsilon} | result.to_json()
            del row["roc"]  # for reports, not for tables
            rows.append(row)
    return rows


def training_code() -> list[dict]:
    """Audit the code that trains: descent, networks, and the paper's noise."""
    from audit_adapters import (
        experiments_constant,
        linear_plan,
        network,
        theorem_model,
    )
    from audit_mutants import DELTA
    from corrdp.auditing import audit, descent_challenges
    from corrdp.estimators import MLPClassifier, MLPRegressor

    paper = {"calibration": "theorem", "clip_norm": 1.0}
    subjects = {
        "logistic regression": descent_challenges(linear_plan("category"), delta=DELTA),
        "linear regression": descent_challenges(linear_plan("number"), delta=DELTA),
        "classifier network": network(MLPClassifier, fall_back=False),
        "regressor network": network(MLPRegressor, fall_back=False),
        "logistic by Eq. (4)": theorem_model(),
        "logistic, floor dropped": theorem_model(
            theorem_constant=experiments_constant()
        ),
        "logistic, semi": theorem_model(method="semi"),
        "regressor by Eq. (5)": network(MLPRegressor, **paper),
        "regressor, semi": network(MLPRegressor, method="semi", **paper),
    }
    rows = []
    for name, subject in subjects.items():
        report = audit(
            subject,
            n_rows=500,
            confidence=CONFIDENCE,
            n_comparisons=8 * len(subjects),
            random_state=1,
        )
        seconds = report.seconds
        rows += [
            {"model": name, "seconds": seconds} | result.to_json()
            for result in report.results
        ]
    return rows


def mutants() -> list[dict]:
    """Run every planted bug against the audit, errors shared among all of them."""
    from audit_mutants import MUTANTS, understated_leakage
    from corrdp.auditing import audit, audit_leakage

    rows = []
    n_comparisons = 4 * (len(MUTANTS) + 1)
    for name, plant in MUTANTS.items():
        begin = time.perf_counter()
        report = audit(
            plant(), confidence=CONFIDENCE, n_comparisons=n_comparisons, random_state=1
        )
        seconds = time.perf_counter() - begin
        worst = max(report.results, key=lambda result: result.tightness)
        rows.append(
            {"bug": name, "is_caught": not report.passed, "seconds": seconds}
            | worst.to_json()
        )
    begin = time.perf_counter()
    sensitive, column, declared = understated_leakage()
    found = audit_leakage(
        sensitive,
        column,
        feature="u",
        declared=declared,
        confidence=1 - (1 - CONFIDENCE) / n_comparisons,
    )
    rows.append(
        {
            "bug": "leakage understated",
            "is_caught": found.is_understated,
            "seconds": time.perf_counter() - begin,
            "class": f"insensitive:{found.feature}",
            "certified_epsilon": found.declared,
            "audited_epsilon": found.audited,
            "attack": "total variation, not epsilon",
        }
    )
    return rows


def soundness() -> dict:
    """Audit fifty correct mechanisms, errors shared among all of them."""
    from audit_correct import correct_mechanisms, one_run_audits
    from corrdp.auditing import Verdict, audit

    mechanisms = correct_mechanisms()
    challenges = [challenge for own in mechanisms for challenge in own]
    total = len(challenges) + 4
    report = audit(
        challenges, confidence=CONFIDENCE, n_comparisons=total, random_state=1
    )
    one_run = one_run_audits(confidence=1 - (1 - CONFIDENCE) / total)
    violated = [r for r in one_run if r.verdict is Verdict.VIOLATED]
    return {
        "n_mechanisms": len(mechanisms) + len(one_run),
        "n_challenges": total,
        "n_violated": len(report.violations) + len(violated),
        "seconds": report.seconds,
        "confidence": CONFIDENCE,
    }


def attribute_inference() -> list[dict]:
    """Guess the diagnosis of the hospital's patients from models of readmission."""
    import warnings

    import pandas as pd

    from corrdp.auditing import conditional_prior, infer_attribute
    from corrdp.datasets import hospital_columns, hospital_policy
    from corrdp.estimators import LogisticRegression
    from corrdp.exceptions import UtilityWarning
    from corrdp.policy import PolicyEncoder

    policy, feature = hospital_policy(), "diagnosis"
    members = pd.DataFrame(hospital_columns(2000, random_state=1))
    public = pd.DataFrame(hospital_columns(20_000, random_state=2))
    encoder = PolicyEncoder(policy)
    known = [name for name in policy.insensitive if name in encoder.n_codes]
    levels = list(policy.feature(feature).domain.levels)
    prior = conditional_prior(
        encoder.codes(public, known),
        encoder.codes(public, [feature])[:, 0],
        encoder.codes(members, known),
        len(levels),
    )
    truth = encoder.codes(members, [feature])[:, 0]
    target = policy.label.name
    rows = []
    for epsilon in (0.5, 4.0):
        for method in METHODS:
            model = LogisticRegression(
                policy,
                epsilon=epsilon,
                delta=1e-6,
                method=method,
                random_state=3,
                research=True,
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UtilityWarning)
                model.fit(members, members[target])

            def likelihood(level: int, model=model) -> np.ndarray:
                guessed = members.assign(
                    **{feature: levels[level], "income": public["income"].median()}
                )
                chances = model.predict_proba(guessed)
                column = np.searchsorted(model.classes_, members[target])
                return chances[np.arange(len(members)), column]

            found = infer_attribute(
                likelihood, prior, truth, feature=feature, method=method
            )
            rows.append({"epsilon": epsilon} | found.to_json())
    return rows


def render() -> None:
    """Write the tables and the figure of the documentation from the saved run."""
    for name, text in tables().items():
        save_table(name, text)
    _draw()


def tables() -> dict[str, str]:
    """Return the tables of the documentation by name, from the saved run."""
    return {
        "audit_claims": _table(
            "audit_claims",
            ["epsilon", "target", "class", "certified", "audited", "tightness", "runs"],
            lambda row: [
                f"{row['epsilon']:g}",
                row["target"],
                f"`{row['class']}`",
                f"{row['certified_epsilon']:.3g}",
                f"{row['audited_epsilon']:.3g}",
                f"{row['tightness']:.2f}",
                f"{row['n_runs']:,}",
            ],
        ),
        "audit_mutants": _table(
            "audit_mutants",
            ["planted bug", "class", "claimed", "proved", "by", "seconds", "caught"],
            lambda row: [
                row["bug"],
                f"`{row['class']}`",
                f"{row['certified_epsilon']:.3g}",
                f"{row['audited_epsilon']:.3g}",
                row["attack"],
                f"{row['seconds']:.1f}",
                "yes" if row["is_caught"] else "no",
            ],
        ),
        "audit_training": _table(
            "audit_training",
            ["model", "claim", "class", "stated", "audited", "tightness", "verdict"],
            lambda row: [
                row["model"],
                _claim(row["target"]),
                f"`{row['class']}`",
                _epsilon(row["certified_epsilon"]),
                _epsilon(row["audited_epsilon"]),
                "" if row["certified_epsilon"] == "inf" else f"{row['tightness']:.2f}",
                row["verdict"],
            ],
        ),
        "audit_attribute_inference": _table(
            "audit_attribute_inference",
            ["epsilon", "method", "prior alone", "with the model", "95 % interval"],
            lambda row: [
                f"{row['epsilon']:g}",
                row["method"],
                f"{row['prior_accuracy']:.3f}",
                f"{row['accuracy']:.3f}",
                f"{row['accuracy_lower']:.3f} to {row['accuracy_upper']:.3f}",
            ],
        ),
    }


def _claim(target: str) -> str:
    kind = target.rsplit(", ", 1)[-1]
    return kind if kind in ("nominal", "provable") else "certified"


def _epsilon(value: float | str) -> str:
    return "none" if value == "inf" else f"{value:.3g}"


def _table(name: str, header: list[str], cells) -> str:
    return markdown_table(header, map(cells, read_figures(name)))


def _saved(name: str) -> list[dict]:
    rows: list[dict] = json.loads((RESULTS / f"{name}.json").read_text())
    return rows


def _is_finite(row: dict) -> bool:
    return "inf" not in (row["certified_epsilon"], row["audited_epsilon"])


def _dots(
    axes: Any, rows: list[dict[str, Any]], *, least: float, marker: str, label: str
) -> None:
    axes.scatter(
        [row["certified_epsilon"] for row in rows],
        [max(row["audited_epsilon"], least) for row in rows],
        marker=marker,
        s=22,
        label=label,
    )


def _draw() -> None:
    """Draw audited against certified epsilon: bugs lie above the line."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "corrdp"
    import matplotlib.pyplot as plt

    claimed = json.loads((RESULTS / "audit_claims.json").read_text())
    planted = json.loads((RESULTS / "audit_mutants.json").read_text())
    figure, axes = plt.subplots(figsize=(6.4, 4.8))
    ends = [0.2, 60.0]
    axes.plot(ends, ends, color="0.6", linewidth=1.0, label="audited = certified")
    for marker, start, label in (
        ("o", "gradients", "gradients, white box"),
        ("s", "column sums", "column means"),
        ("^", "training", "training, black box"),
    ):
        rows = [row for row in claimed if row["target"].startswith(start)]
        _dots(axes, rows, least=ends[0], marker=marker, label=label)
    trained = [row for row in _saved("audit_training") if _is_finite(row)]
    for marker, kinds, label in (
        ("D", ("certified", "provable"), "code that trains, networks too"),
        ("P", ("nominal",), "the paper's formulas, nominal"),
    ):
        rows = [row for row in trained if _claim(row["target"]) in kinds]
        _dots(axes, rows, least=ends[0], marker=marker, label=label)
    bugs = [row for row in planted if "tightness" in row]
    axes.scatter(
        [row["certified_epsilon"] for row in bugs],
        [row["audited_epsilon"] for row in bugs],
        marker="x",
        s=36,
        color="black",
        label="planted bugs",
    )
    axes.set(
        xscale="log",
        yscale="log",
        xlim=ends,
        ylim=ends,
        xlabel="certified epsilon",
        ylabel="audited epsilon (lower bound)",
    )
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    FIGURE.parent.mkdir(exist_ok=True)
    figure.savefig(FIGURE, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    if "--render" in sys.argv:
        render()
    elif "--training" in sys.argv:
        save("audit_training", training_code())
        render()
    else:
        run()
