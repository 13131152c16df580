"""Labels have the type that the policy declares, whatever the type of `y`."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from corrdp.estimators import LogisticRegression, MLPClassifier
from corrdp.estimators._labels import declared_labels
from corrdp.exceptions import PolicyError
from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    Replace,
)

X = pd.DataFrame({"x": np.linspace(0, 1, 60)})


def policy_of(domain):
    return Policy(
        (Feature("x", "sensitive", NumberDomain(0, 1)),), Label("y", domain, 1)
    )


DECLARED = {
    "integers": (CategoryDomain((0, 1), missing=Replace(0)), "i", [0, 1]),
    "texts": (CategoryDomain(("0", "1"), missing=Replace("0")), "O", ["0", "1"]),
    "floats": (CategoryDomain((0.0, 1.0), missing=Replace(0)), "f", [0.0, 1.0]),
    "booleans": (BooleanDomain(Replace(False)), "b", [False, True]),
    "integers and other": (
        CategoryDomain((0, 1), True, Replace(0)),
        "O",
        ["0", "1", "(other)"],
    ),
    "true and false": (CategoryDomain((False, True)), "b", [False, True]),
    "mixed": (CategoryDomain((0, "x")), "O", ["0", "x"]),
    "merged": (
        CategoryDomain((0, 1, 2), groups={"some": [1, 2]}),
        "O",
        ["0", "some"],
    ),
}


@pytest.mark.parametrize("case", DECLARED)
def test_labels_are_of_the_declared_type_and_order(case):
    domain, kind, labels = DECLARED[case]
    found = declared_labels(policy_of(domain))
    assert found.dtype.kind == kind
    assert found.tolist() == labels
    assert [type(label) for label in found.tolist()] == [type(x) for x in labels]


@pytest.mark.parametrize("case", DECLARED)
def test_types_are_kept_by_files_and_have_no_part_in_fingerprints(case):
    domain, _, labels = DECLARED[case]
    policy = policy_of(domain)
    for copied in (
        Policy.from_toml(policy.to_toml()),
        Policy.from_dict(policy.to_dict()),
    ):
        assert copied == policy
        assert declared_labels(copied).tolist() == labels
        assert copied.label.domain.__class__ is domain.__class__
    if isinstance(domain, CategoryDomain):
        texts = CategoryDomain(
            domain.categories, domain.other, domain.missing, groups=domain.groups
        )
        assert policy_of(texts) == policy
        assert policy_of(texts).fingerprint() == policy.fingerprint()


ONES = np.arange(60) % 2
GIVEN = {
    "integers": ONES,
    "small integers": ONES.astype(np.int8),
    "floats": ONES.astype(float),
    "floats, one missing": np.where(np.arange(60) == 4, np.nan, ONES),
    "objects": ONES.astype(object),
    "texts": ONES.astype(str),
    "list": ONES.tolist(),
    "booleans": ONES == 1,
    "pandas": pd.Series(ONES),
    "pandas, nullable": pd.Series(ONES, dtype="Int64"),
    "polars": pl.Series(ONES),
    "polars booleans": pl.Series(ONES == 1),
    "pyarrow": pa.chunked_array([ONES]),
    "pyarrow texts": pa.chunked_array([[str(one) for one in ONES]]),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("case", ["integers", "texts", "floats", "booleans"])
def test_predictions_do_not_take_the_type_of_y(case, given, tmp_path):
    domain, kind, labels = DECLARED[case]
    model = LogisticRegression(
        policy_of(domain), epsilon=5.0, delta=1e-4, n_steps=3, random_state=0
    ).fit(X, GIVEN[given])
    assert model.classes_.dtype.kind == kind
    assert model.classes_.tolist() == labels
    for table in (X, pl.DataFrame({"x": X["x"].to_numpy()}), X.to_numpy()):
        predicted = model.predict(table)
        assert predicted.dtype == model.classes_.dtype
        assert {type(p) for p in predicted.tolist()} == {type(labels[0])}
    expected = np.mean(model.predict(X).astype(float) == ONES)
    if given != "floats, one missing":
        assert model.score(X, GIVEN[given]) == pytest.approx(expected, abs=1e-15)
    model.save(tmp_path / "model")
    again = LogisticRegression.load(tmp_path / "model")
    assert again.classes_.dtype == model.classes_.dtype
    assert again.classes_.tolist() == labels


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, pa.table])
def test_the_label_is_found_in_the_table(kind):
    table = kind({"x": X["x"].to_numpy(), "y": ONES})
    policy = policy_of(DECLARED["integers"][0])
    model = LogisticRegression(policy, epsilon=5.0, delta=1e-4, n_steps=3)
    assert model.fit(table).classes_.tolist() == [0, 1]
    again = LogisticRegression(policy, epsilon=5.0, delta=1e-4, n_steps=3)
    with pytest.raises(PolicyError, match="no column 'y'"):
        again.fit(X.to_numpy())


def test_networks_predict_the_declared_type():
    model = MLPClassifier(
        policy_of(DECLARED["integers"][0]),
        epsilon=50.0,
        delta=1e-4,
        hidden_units=(2,),
        n_steps=1,
        fall_back=False,
        random_state=0,
    ).fit(X, GIVEN["floats, one missing"])
    assert model.classes_.dtype.kind == "i"
    assert model.predict(X).dtype.kind == "i"
    assert 0.0 <= model.score(X, GIVEN["texts"]) <= 1.0


@pytest.mark.parametrize(
    ("domain", "said"),
    [(NumberDomain(0, 1), "label.type is a number"), (CategoryDomain((0,)), "1 level")],
)
def test_labels_without_two_classes_are_refused(domain, said):
    with pytest.raises(PolicyError, match=said):
        declared_labels(policy_of(domain))
