"""All that a release shows, beside its numbers, is the same on neighboring tables.

With nearly no budget and one seed noise is the same and drowns one record, so that
messages, warnings, choices, names, types and lengths must agree, and numbers nearly.
"""

import json
import warnings

import pandas as pd
import pytest

from corrdp.estimators import LogisticRegression
from corrdp.leakage import estimate_leakage
from corrdp.policy import Policy, class_columns, neighbor_classes
from corrdp.queries import answer_queries
from corrdp.synthesis import Synthesizer

BUDGET = {"epsilon": 1e-6, "delta": 1e-12}
N_ROWS = 12
CASE = """
relation = "{relation}"
block_leakage = 0.2
target = "ill"

[label]
type = "boolean"
missing_value = false
score = {score}

[features.dose]
role = "sensitive"
type = "number"
bounds = [0, 10]
bins = 4
missing = "slot"

[features.word]
role = "sensitive"
type = "category"
categories = ["a", "b"]
other = true

[features.town]
role = "insensitive"
type = "category"
categories = ["x", "y", "z"]
unknown = "z"
missing = "slot"
leakage = 0.3

[features.smoker]
role = "insensitive"
type = "boolean"
missing = "slot"
leakage = 0.0

[features.year]
role = "public"
type = "number"
bounds = [2000, 2020]
bins = 2
"""
ROWS = {
    "dose": [0, 10, 5.5] * 4,
    "word": ["a", "b"] * 6,
    "town": ["x"] * N_ROWS,
    "smoker": [True, False, True] * 4,
    "year": [2000, 2019] * 6,
    "ill": [True] * N_ROWS,
}
ODD = {"dose": "no number", "word": 7.5, "town": None, "smoker": "NA", "ill": False}


def fitted(table, policy):
    model = LogisticRegression(policy, **BUDGET, n_steps=3, random_state=1)
    model.fit(table)
    return [model.certificate_.to_dict(), model.coef_.tolist(), sorted(vars(model))]


def answered(table, policy):
    asks = ["mean(dose)", "histogram(word)", "count() by town, smoker", "median(dose)"]
    result = answer_queries(table, policy, asks, epsilon=1e-6, random_state=1)
    return [result.certificate.to_dict(), result.rows()]


def estimated(table, policy):
    told = estimate_leakage(table, policy, **BUDGET, random_state=1)
    return {**told.to_dict(), "digest": None}


def sampled(table, policy):
    maker = Synthesizer(policy, **BUDGET, random_state=1).fit(table)
    return [maker.certificate_.to_dict(), maker.sample(3, random_state=1).to_dict()]


def shown(release, cells, policy):
    """Return what a release shows: its results as JSON, its error, its warnings."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            result = release(pd.DataFrame(cells), policy)
        except Exception as error:
            result = f"{type(error).__name__}: {error}"
    told = [str(warning.message) for warning in warned]
    return json.loads(json.dumps([result, told], default=str))


def check_alike(one, other, place="result"):
    assert type(one) is type(other), place
    if isinstance(one, dict):
        assert list(one) == list(other), place
        for name, value in one.items():
            check_alike(value, other[name], f"{place}.{name}")
    elif isinstance(one, list):
        assert len(one) == len(other), place
        for index, pair in enumerate(zip(one, other, strict=True)):
            check_alike(*pair, f"{place}[{index}]")
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=0.01, abs=1e-3, nan_ok=True), place
    else:
        assert one == other, place


@pytest.mark.parametrize("release", [fitted, answered, estimated, sampled])
@pytest.mark.parametrize("relation", ["one_insensitive", "all_insensitive"])
@pytest.mark.parametrize("score", [0.4, 1.0])
def test_what_is_shown_beside_numbers_is_the_same(release, relation, score):
    policy = Policy.from_toml(CASE.format(relation=relation, score=score))
    before = shown(release, ROWS, policy)
    assert isinstance(before[0], list | dict)  # no error: something is compared
    columns = class_columns(policy)
    for promised in (c.name for c in neighbor_classes(policy) if c.promised):
        changed = {name: [*ROWS[name][:-1], ODD[name]] for name in columns[promised]}
        check_alike(before, shown(release, ROWS | changed, policy), promised)
