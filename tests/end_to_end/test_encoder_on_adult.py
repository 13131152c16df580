"""Adult with the paper's filter and roles: 45,175 rows, 31 columns."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from corrdp.policy import Policy, PolicyEncoder, neighbor_classes

POLICY = """
target = "income"
relation = "one_insensitive"

[features.age]
role = "sensitive"
type = "number"
bounds = [17, 90]
bins = 8

[features.educational-num]
role = "sensitive"
type = "number"
bounds = [1, 16]
bins = 4

[features.hours-per-week]
role = "sensitive"
type = "number"
bounds = [1, 99]
bins = 4

[features.marital-status]
role = "sensitive"
type = "category"
categories = [
    "Married-civ-spouse", "Never-married", "Divorced", "Separated", "Widowed",
    "Married-spouse-absent", "Married-AF-spouse",
]

[features.relationship]
role = "sensitive"
type = "category"
categories = [
    "Husband", "Not-in-family", "Own-child", "Unmarried", "Wife", "Other-relative",
]

[features.race]
role = "insensitive"
type = "category"
categories = ["White", "Black", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other"]
leakage = 0.23

[features.gender]
role = "insensitive"
type = "category"
categories = ["Male", "Female"]
leakage = 0.5

[features.workclass]
role = "insensitive"
type = "category"
categories = [
    "Private", "Self-emp-not-inc", "Local-gov", "State-gov", "Self-emp-inc",
    "Federal-gov", "Without-pay",
]
leakage = 0.5

[features.fnlwgt]
role = "insensitive"
type = "number"
bounds = [12000, 1500000]
bins = 4
leakage = 0.1

[label]
type = "category"
categories = ["<=50K", ">50K"]
score = 0.0
"""


@pytest.fixture(scope="module")
def adult():
    root = Path(__file__).parents[2]
    folder = Path(os.environ.get("CORRDP_DATA_DIR", root / ".." / "shared" / "data"))
    path = folder / "adult.csv.gz"
    if not path.is_file():
        reason = "adult.csv.gz is not there; set CORRDP_DATA_DIR to its folder"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    table = pd.read_csv(path)
    return table[~table.eq("?").any(axis=1)].drop_duplicates()


@pytest.fixture
def encoder():
    return PolicyEncoder(Policy.from_toml(POLICY))


def test_the_papers_rows_and_columns(adult, encoder):
    matrix = encoder.fit_transform(adult)
    assert matrix.shape == (45_175, 31)
    widths = {block.name: block.stop - block.start for block in encoder.blocks_}
    assert widths == {
        "age": 1,
        "educational-num": 1,
        "hours-per-week": 1,
        "marital-status": 7,
        "relationship": 6,
        "race": 5,
        "gender": 2,
        "workclass": 7,
        "fnlwgt": 1,
    }
    assert len(encoder.get_feature_names_out()) == len(encoder.describe_columns()) == 31


def test_entries_agree_with_a_plain_computation(adult, encoder):
    matrix = encoder.transform(adult)
    names = list(encoder.get_feature_names_out())
    age = (adult["age"].to_numpy() - 17) / 73 - 0.5
    np.testing.assert_allclose(matrix[:, names.index("age")], age, atol=1e-15)
    for column, value in [("race", "White"), ("gender", "Female")]:
        expected = adult[column].eq(value).to_numpy()
        encoded = matrix[:, names.index(f"{column}={value}")]
        np.testing.assert_array_equal(encoded, expected)
    assert encoder.encode_label(adult["income"]).mean() == pytest.approx(
        0.248, abs=5e-4
    )


def test_polars_and_numpy_agree_with_pandas(adult, encoder):
    expected = encoder.transform(adult)
    names = [feature.name for feature in encoder.policy.features]
    np.testing.assert_array_equal(encoder.transform(pl.from_pandas(adult)), expected)
    np.testing.assert_array_equal(encoder.transform(adult[names].to_numpy()), expected)


def test_codes_stay_below_their_count(adult, encoder):
    codes = encoder.codes(adult)
    assert codes.shape == (45_175, 9)
    assert (codes.max(axis=0) < list(encoder.n_codes.values())).all()


def test_classes_of_the_policy(encoder):
    classes = neighbor_classes(encoder.policy)
    assert [(c.name, c.distance) for c in classes] == [
        ("sensitive", 1.0),
        ("insensitive:race", 0.23),
        ("insensitive:gender", 0.5),
        ("insensitive:workclass", 0.5),
        ("insensitive:fnlwgt", 0.1),
        ("whole_record", 1.0),
    ]
