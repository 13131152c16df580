"""Whatever can be refused is refused before a ledger is charged, at every door.

A door is a way to pay, by Python or by a command; a fault spoils one thing that a door
is given. Each door refuses each fault that it could meet, shows no cell, and leaves the
ledger as it was, to the last byte: no charge, no policy, no account, and no file where
there was none.
"""

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest

import corrdp
from command_runner import run
from corrdp.exceptions import CorrDPError
from corrdp.ledger import Ledger, LedgerChoice, pay_for_leakage
from corrdp.policy import Budget, CategoryDomain, Feature, Label, NumberDomain, Policy
from corrdp.queries import answer_queries
from corrdp.synthesis import Synthesizer, measure_quality

FEATURES = (
    Feature("age", "sensitive", NumberDomain(0, 100, bins=4)),
    Feature("sex", "insensitive", CategoryDomain(("f", "m")), leakage=0.5),
)
WORDS = Policy(FEATURES, label=Label("y", CategoryDomain(("no", "yes")), score=0.0))
NUMBERS = Policy(FEATURES, label=Label("y", NumberDomain(0, 10), score=0.0))
ASKED = ["mean(age) by sex", "count() by y"]
SECRET = "a cell that nobody may see"


@cache
def sound_table(policy):
    places = np.arange(120)
    words = np.where(places % 3, "yes", "no")
    return pd.DataFrame(
        {
            "age": places % 100 + 0.5,
            "sex": np.where(places % 2, "f", "m"),
            "y": words if policy is WORDS else places % 11,
        }
    )


@dataclass(frozen=True)
class Case:
    """What a door is given; sound unless a fault says otherwise."""

    policy: Policy
    table: pd.DataFrame
    ledger: Path
    epsilon: float = 1.0
    delta: float = 1e-6
    seed: Any = None
    out: str = "out"


# --- faults, by what they spoil


def cell(column, value):
    def spoil(case):
        table = case.table.astype({column: object})
        table.loc[7, column] = value
        return replace(case, table=table)

    return spoil


def without(column):
    return lambda case: replace(case, table=case.table.drop(columns=column))


def given(**options):
    return lambda case: replace(case, **options)


def reading_freely(case):
    features = (FEATURES[0], replace(FEATURES[1], role="public", leakage=None))
    return replace(case, policy=replace(case.policy, features=features))


def draft(case):
    fields = ("features.age.bounds",)
    return replace(case, policy=replace(case.policy, unconfirmed=fields))


FAULTS: dict[str, dict[str, Callable[[Case], Case]]] = {
    "features": {
        "odd number": cell("age", SECRET),
        "odd category": cell("sex", SECRET),
        "missing number": cell("age", None),
        "missing category": cell("sex", None),
        "no column of numbers": without("age"),
        "no column of categories": without("sex"),
    },
    "label": {
        "odd label": cell("y", SECRET),
        "missing label": cell("y", None),
        "no column of labels": without("y"),
    },
    "no rows": {"no rows": lambda case: replace(case, table=case.table[:0])},
    "rows": {
        "other rows": lambda case: replace(case, table=case.table[::-1]),
        "fewer rows": lambda case: replace(case, table=case.table[:-1]),
    },
    "seed": {"negative seed": given(seed=-1)},
    "seeds of Python": {
        "word for a seed": given(seed="one"),
        "part of a seed": given(seed=0.5),
        "truth for a seed": given(seed=True),
    },
    "budget": {
        "more than is left": given(epsilon=500.0),
        "no epsilon": given(epsilon=0.0),
        "delta of one": given(delta=1.0),
    },
    "delta": {"no delta": given(delta=0.0)},
    "policy": {"draft": draft},
    "account": {"a column that an account protects is public": reading_freely},
    "place": {"no folder": given(out="a_file/out"), "taken": given(out="data.csv")},
}


class Door(NamedTuple):
    """A way to pay, under a policy, and the groups of faults that it could meet."""

    policy: Policy
    enter: Any
    faults: str


def cases(doors):
    return [
        pytest.param(door, spoil, group, id=f"{name}-{fault}".replace(" ", "_"))
        for name, door in doors.items()
        for group in door.faults.split(", ")
        for fault, spoil in FAULTS[group].items()
    ]


@cache
def sound_ledger(policy, folder, *, has_seen_rows):
    """Return the bytes of a ledger that may go on."""
    path = folder / f"{has_seen_rows} {policy is WORDS}.ledger"
    ledger = Ledger.create(path, policy, budget=Budget(epsilon=30.0, delta=1e-4))
    if has_seen_rows:
        own = ["mean(age) by sex", "count() by y" if policy is WORDS else "mean(y)"]
        answer_queries(sound_table(policy), policy, own, epsilon=0.1, ledger=ledger)
    return path.read_bytes()


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


# --- doors of Python


def promise(case):
    return {"epsilon": case.epsilon, "delta": case.delta, "random_state": case.seed}


def fit(kind, case):
    kind(case.policy, ledger=case.ledger, **promise(case)).fit(case.table)


def network(kind, case):
    promised = promise(case) | {"fall_back": False}
    kind(case.policy, ledger=case.ledger, **promised).fit(case.table)


def search(kind, case):
    settings = {"n_steps": [10, 20]}
    corrdp.PrivateSearchCV(
        kind(case.policy), settings, ledger=case.ledger, **promise(case)
    ).fit(case.table)


def leakage(case):
    choice = LedgerChoice(case.ledger, None, accept_new_data=False)
    corrdp.estimate_leakage(
        case.table,
        case.policy,
        charge=lambda plan: pay_for_leakage(choice, plan, case.policy, case.table),
        **promise(case),
    )


def answers(case):
    ledger = Ledger.open(case.ledger)
    answer_queries(case.table, case.policy, ASKED, ledger=ledger, **promise(case))


def synthesis(case):
    ledger = Ledger.open(case.ledger)
    Synthesizer(case.policy, **promise(case)).fit(case.table, ledger=ledger)


@cache
def fitted(kind, policy):
    return kind(policy, epsilon=1.0, delta=1e-6).fit(sound_table(policy))


def evaluation(kind, policy, case):
    fitted(kind, policy).evaluate(case.table, ledger=case.ledger, **promise(case))


def quality(case):
    fitted_maker = fitted(Synthesizer, WORDS)
    tables, ledger = [("age", "sex"), ("sex", "y")], Ledger.open(case.ledger)
    measure_quality(fitted_maker, case.table, tables, ledger=ledger, **promise(case))


ALWAYS = "features, seed, seeds of Python, budget"
FITS = f"{ALWAYS}, label, no rows, delta, policy, account"


def fit_of(name, policy, enter=fit):
    return Door(policy, partial(enter, getattr(corrdp, name)), FITS)


def evaluation_of(name, policy):
    enter = partial(evaluation, getattr(corrdp, name), policy)
    return Door(policy, enter, f"{ALWAYS}, label, rows")


PYTHON = {
    "logistic": fit_of("LogisticRegression", WORDS),
    "linear": fit_of("LinearRegression", NUMBERS),
    "additive of words": fit_of("AdditiveClassifier", WORDS),
    "additive of numbers": fit_of("AdditiveRegressor", NUMBERS),
    "network of words": fit_of("MLPClassifier", WORDS, network),
    "network of numbers": fit_of("MLPRegressor", NUMBERS, network),
    "search of words": fit_of("LogisticRegression", WORDS, search),
    "search of numbers": fit_of("LinearRegression", NUMBERS, search),
    "leakage": Door(WORDS, leakage, f"{ALWAYS}, rows, delta, policy"),
    "queries": Door(WORDS, answers, f"{ALWAYS}, label, rows, policy, account"),
    "synthesis": Door(WORDS, synthesis, f"{FITS}, rows"),
    "evaluation of words": evaluation_of("LogisticRegression", WORDS),
    "evaluation of numbers": evaluation_of("LinearRegression", NUMBERS),
    "quality": Door(WORDS, quality, f"{ALWAYS}, label, rows"),
}


@pytest.mark.parametrize(("door", "spoil", "group"), cases(PYTHON))
def test_what_python_refuses_costs_nothing(door, spoil, group, kept, tmp_path):
    before = sound_ledger(door.policy, kept, has_seen_rows=group == "rows")
    path = tmp_path / "budget.ledger"
    path.write_bytes(before)
    case = spoil(Case(door.policy, sound_table(door.policy), path))
    with pytest.raises(CorrDPError) as refusal:
        door.enter(case)
    assert SECRET not in str(refusal.value)
    assert path.read_bytes() == before


def bought(kind, case):
    """Fit with leakage that the estimator's own budget would pay for."""
    model = kind(case.policy, epsilon=1.0, delta=1e-6, leakage="auto")
    try:
        model.fit(case.table)
    finally:
        assert model.family.n_fits == 0


LINES = {
    "LogisticRegression": NUMBERS,
    "LinearRegression": WORDS,
    "AdditiveClassifier": NUMBERS,
    "AdditiveRegressor": WORDS,
}
NETWORKS = {"MLPClassifier": NUMBERS, "MLPRegressor": WORDS}


@pytest.mark.parametrize(
    ("enter", "name", "policy"),
    [(enter, *line) for enter in (fit, search, bought) for line in LINES.items()]
    + [(network, *own) for own in NETWORKS.items()],
)
def test_labels_of_the_other_kind_cost_nothing(enter, name, policy, kept, tmp_path):
    path = tmp_path / "budget.ledger"
    path.write_bytes(sound_ledger(policy, kept, has_seen_rows=False))
    before = path.read_bytes()
    with pytest.raises(CorrDPError, match=r"label\.type"):
        enter(getattr(corrdp, name), Case(policy, sound_table(policy), path))
    assert path.read_bytes() == before


# --- doors of the command line

ON_DATA = "data.csv --policy policy.toml"
CELLS = "features, no rows, seed, budget, place"
COMMANDS = {
    "leakage": Door(WORDS, f"leakage {ON_DATA}", f"{CELLS}, rows, delta, policy"),
    "query": Door(
        WORDS,
        f"query {ON_DATA} " + " ".join(f"--ask '{asked}'" for asked in ASKED),
        "features, label, seed, budget, rows, policy, account, place",
    ),
    "train": Door(
        WORDS,
        f"train {ON_DATA} --model logistic",
        f"{CELLS}, label, rows, delta, policy, account",
    ),
    "train a network": Door(
        WORDS,
        f"train {ON_DATA} --model mlp --no-fall-back",
        f"{CELLS}, label, delta, policy, account",
    ),
    "synthesize": Door(
        WORDS, f"synthesize {ON_DATA}", f"{CELLS}, label, rows, delta, policy, account"
    ),
    "evaluate": Door(
        WORDS, "evaluate MODEL data.csv", "features, label, seed, budget, rows, place"
    ),
    "init": Door(
        WORDS,
        "init data.csv --target y --sensitive age --label public",
        "no rows, seed, budget, rows, place",
    ),
}


def contents(folder):
    return {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture(scope="module")
def model(kept):
    fitted(corrdp.LogisticRegression, WORDS).save(kept / "model")
    return kept / "model"


@pytest.mark.parametrize(("door", "spoil", "group"), cases(COMMANDS))
def test_what_a_command_refuses_costs_nothing(
    door, spoil, group, kept, model, tmp_path
):
    path = tmp_path / "budget.ledger"
    path.write_bytes(sound_ledger(door.policy, kept, has_seen_rows=group == "rows"))
    case = spoil(Case(door.policy, sound_table(door.policy), path))
    case.table.to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "policy.toml").write_text(case.policy.to_toml())
    (tmp_path / "a_file").touch()
    before = contents(tmp_path)
    words = [
        *shlex.split(door.enter.replace("MODEL", os.fspath(model))),
        *("--epsilon", case.epsilon, "--delta", case.delta, "--out", case.out),
        *(() if case.seed is None else ("--seed", case.seed)),
    ]
    ledgers = [(path.name,)]
    if group not in {"rows", "account"}:  # of which a new ledger knows nothing
        ledgers += [("new.ledger", "--ledger-epsilon", 30, "--ledger-delta", 1e-4)]
    for ledger in ledgers:
        result = run(*words, "--ledger", *ledger, "--json", cwd=tmp_path)
        assert result.code in (2, 3, 4), result.stderr
        assert result.stdout == ""
        assert SECRET not in result.stderr
        assert contents(tmp_path) == before
