"""Is an audit without canaries any use here: protected attributes guessed as they are.

Kalemaj and others (arXiv 2511.14084) leave the training data alone: beside the true
value of a protected attribute the auditor draws another one from what he believes it to
be, given all else, and guesses from the model which of the two it was trained on. If
his belief is the truth, the two are exchangeable and the bounds of one run hold. This
measures how often a claim is called broken if it is not, and what a leak must be like
to be seen. Run: python benchmarks/bench_audit_observational.py.
"""

import warnings

import numpy as np
import pandas as pd
from saved_tables import markdown_table, save_figures, save_table
from scipy.special import expit
from sklearn.linear_model import LogisticRegression as Plain
from sklearn.tree import DecisionTreeClassifier

from corrdp.auditing import Claim
from corrdp.auditing.statistics import is_too_many_correct
from corrdp.estimators import LogisticRegression
from corrdp.exceptions import UtilityWarning
from corrdp.policy import CategoryDomain, Feature, Label, NumberDomain, Policy

N_ROWS = 2000
N_TABLES = 100
N_COLUMNS = 4
FAILURE = 0.05
CLAIM = Claim.gaussian(0.3, delta=1e-5)  # about epsilon 1
POPULATION = "none, the population alone"
PARTS = (1 / 16, 1 / 8, 1 / 4)  # of the attributes that are guessed
SLOPE = np.array([2.0, -2.0, 1.0, 1.0])

POLICY = Policy(
    (
        Feature("s", "sensitive", CategoryDomain(("0", "1"))),
        *(
            Feature(f"x{i}", "insensitive", NumberDomain(-1, 1), leakage=0.5)
            for i in range(N_COLUMNS)
        ),
    ),
    Label("y", CategoryDomain(("0", "1")), 0.0),
)


def drawn(n_rows, rng):
    """Return features, the attribute, the label, and the true odds of the attribute."""
    x = rng.uniform(-1, 1, (n_rows, N_COLUMNS))
    # not linear, as a belief that is fitted by logistic regression will have it
    prior = x @ SLOPE + 2 * x[:, 0] * x[:, 1]
    s = rng.random(n_rows) < expit(prior)
    y = rng.random(n_rows) < expit(chance_of_label(x, s))
    return x, s, y, prior + gap(x, y)


def chance_of_label(x, s):
    return 1.5 * (2.0 * s - 1.0) + x.sum(axis=1)


def gap(x, y):
    """Return what the label adds to the log odds of the attribute."""
    one = expit(chance_of_label(x, np.ones(len(x))))
    zero = expit(chance_of_label(x, np.zeros(len(x))))
    return np.where(y, np.log(one / zero), np.log((1 - one) / (1 - zero)))


def believed(n_public, x, y, true_odds, rng):
    """Return the auditor's odds of the attribute: the truth, or fitted to some rows."""
    if n_public is None:
        return true_odds
    px, ps, py, _ = drawn(n_public, rng)
    fitted = Plain(C=100.0).fit(np.column_stack([px, py]), ps)
    return fitted.decision_function(np.column_stack([x, y]))


def trained(kind, x, s, y, rng):
    """Return log odds of the label as a function of features and the attribute."""
    if kind == "other people's rows":
        x, s, y, _ = drawn(N_ROWS, rng)
    if kind == "corr, epsilon 1":
        model = LogisticRegression(
            POLICY, epsilon=1.0, delta=1e-5, random_state=int(rng.integers(2**31))
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UtilityWarning)
            model.fit(frame(x, s), np.where(y, "1", "0"))
        return lambda x, s: np.log(model.predict_proba(frame(x, s)) + 1e-9)
    plain = Plain(C=1e4) if kind != "tree" else DecisionTreeClassifier()
    plain.fit(np.column_stack([x, s]), y)
    return lambda x, s: np.log(plain.predict_proba(np.column_stack([x, s])) + 1e-9)


def frame(x, s):
    columns = {f"x{i}": x[:, i] for i in range(N_COLUMNS)}
    return pd.DataFrame({"s": np.where(s, "1", "0")} | columns)


def is_called_broken(kind, n_public, rng):
    """Return the verdict of one audit."""
    x, s, y, odds = drawn(N_ROWS, rng)
    belief = believed(n_public, x, y, odds, rng)
    other = rng.random(N_ROWS) < expit(belief)
    differs = other != s
    rows, label = np.flatnonzero(differs), y[differs].astype(int)
    place = np.arange(rows.size)
    if kind == POPULATION:  # no model at all: where the auditor's belief is wrong
        toward = (odds - belief)[rows]
    else:
        fit = trained(kind, x, s, y, rng)
        one, zero = (
            fit(x[rows], np.full(rows.size, value))[place, label]
            for value in (True, False)
        )
        toward = one - zero
    score = np.where(s[rows], toward, -toward)  # positive: the true one fits
    surest = np.argsort(-np.abs(score), kind="stable")
    right = np.cumsum(score[surest] > 0)
    return any(
        is_too_many_correct(
            int(right[count - 1]),
            n_guesses=count,
            n_canaries=rows.size,
            claim=CLAIM,
            failure_probability=FAILURE / len(PARTS),
        )
        for count in (round(part * rows.size) for part in PARTS)
    )


def measured():
    """Return the share of audits that call the claim broken."""
    found = []
    for kind in (POPULATION, "other people's rows", "corr, epsilon 1", "plain", "tree"):
        n_tables = N_TABLES if kind != "corr, epsilon 1" else N_TABLES // 5
        for name, n_public in (("truth", None), ("2000 rows", 2000), ("100 rows", 100)):
            rng = np.random.default_rng(0)
            alarms = [is_called_broken(kind, n_public, rng) for _ in range(n_tables)]
            row = {"model": kind, "belief": name, "broken": float(np.mean(alarms))}
            found.append(row | {"tables": n_tables})
            print(found[-1], flush=True)
    return found


def table(rows):
    """Return the table of the documentation."""
    beliefs = list(dict.fromkeys(row["belief"] for row in rows))
    lines = []
    for kind in dict.fromkeys(row["model"] for row in rows):
        shares = [f"{row['broken']:.2f}" for row in rows if row["model"] == kind]
        lines.append([kind, *shares])
    return markdown_table(["model", *(f"belief: {name}" for name in beliefs)], lines)


def run():
    """Measure, save, and return what the page of all benchmarks shows."""
    saved = measured()
    save_figures("audit_observational", saved)
    save_table("audit_observational", table(saved))
    return [
        {
            "name": f"called broken, model: {row['model']}, belief: {row['belief']}",
            "value": row["broken"],
            "unit": "share",
        }
        for row in saved
    ]


if __name__ == "__main__":
    run()
