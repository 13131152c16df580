"""A feature may be called ``block``, as certificates call all insensitive features."""

import numpy as np
import pandas as pd
import pytest

from corrdp import estimate_leakage
from corrdp.certificate import Certificate
from corrdp.estimators import LogisticRegression
from corrdp.policy import BooleanDomain, CategoryDomain, Feature, Label, Policy
from corrdp.queries import answer_queries

LETTERS = CategoryDomain(("a", "b", "c"))
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


def policy_of(names, relation="one_insensitive", **leakage):
    features = [Feature("sex", "sensitive", CategoryDomain(("f", "m")))]
    features += [
        Feature(name, "insensitive", LETTERS, leakage=leakage.get(name))
        for name in names
    ]
    label = Label("ill", BooleanDomain(), 0.0)
    return Policy(tuple(features), label, relation=relation)


def table_of(names, n_rows=1_500):
    generator = np.random.default_rng(0)
    columns = {"sex": generator.choice(["f", "m"], n_rows)}
    columns |= {name: generator.choice(list("abc"), n_rows) for name in names}
    return pd.DataFrame(columns | {"ill": generator.random(n_rows) < 0.4})


@pytest.mark.parametrize("relation", ["one_insensitive", "all_insensitive"])
@pytest.mark.parametrize("name", ["block", "town"])
def test_the_only_insensitive_feature_may_have_any_name(name, relation, tmp_path):
    policy, frame = policy_of([name], relation), table_of([name])
    leakage = estimate_leakage(frame, policy, **BUDGET, random_state=1)
    model = LogisticRegression(policy, **BUDGET, leakage=leakage, random_state=2)
    model.fit(frame, frame["ill"])
    certificate = Certificate.from_json(model.certificate_.to_json())
    certificate.verify(policy)
    bound = leakage.features[name if relation == "one_insensitive" else "block"].upper
    insensitive = [n for n in certificate.classes if n.startswith("insensitive")]
    assert certificate.classes[insensitive[0]].distance == bound
    model.save(tmp_path / "model")
    again = LogisticRegression.load(tmp_path / "model")
    found = again.evaluate(frame, frame["ill"], **BUDGET, random_state=3)
    found.certificate.verify()
    assert found.certificate.classes[insensitive[0]].distance == bound
    told = answer_queries(
        frame, policy, ["histogram(sex)"], **BUDGET, leakage=leakage, random_state=4
    )
    told.certificate.verify(policy)


def test_formulas_of_the_paper_take_the_leakage_of_each_feature():
    """What ``block`` leaks says nothing of other features."""
    scales = {}
    for name in ("block", "town"):
        policy = policy_of([name, "job"], **{name: 0.04, "job": 0.9})
        model = LogisticRegression(policy, **BUDGET, calibration="theorem")
        plan = model.theorem_plan(2_000)
        scales[name] = list(plan.noise.noise_scale)
    assert scales["block"] == scales["town"]
    assert len(set(scales["block"])) > 1
