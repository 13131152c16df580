"""The encoder: values, treatments, geometry, table kinds, refusals."""

import datetime
import math
import pickle
import traceback
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from corrdp.exceptions import PolicyError
from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    Replace,
    Slot,
    policy_blocks,
)
from corrdp.tables import canonical_text

SECRET = "Xq7-secret"


def encoder_of(domain, **parameters):
    return PolicyEncoder(Policy((Feature("f", "sensitive", domain),)), **parameters)


def encoded(domain, values):
    """Encode one column, as pandas objects and as a list inside a polars frame."""
    frame = pd.DataFrame({"f": pd.Series(values, dtype=object)})
    return encoder_of(domain).transform(frame)


MIXED = Policy(
    (
        Feature("age", "sensitive", NumberDomain(0, 100, 4, Slot())),
        Feature("race", "insensitive", CategoryDomain(("a", "b"), other=True)),
        Feature("smoker", "public", BooleanDomain(Slot())),
        Feature("kind", "sensitive", CategoryDomain((1, 2), missing=Slot())),
    ),
    Label("y", CategoryDomain(("no", "yes")), 0.0),
)
MIXED_ROWS = {
    "age": [0.0, 75.0, None],
    "race": ["b", "a", "zzz"],
    "smoker": [True, None, False],
    "kind": [2, 1, None],
}
MIXED_MATRIX = np.array(
    [
        [-0.5, 0, 0, 1, 0, 0.5, 0, 0, 1, 0],
        [0.25, 0, 1, 0, 0, 0.0, 1, 1, 0, 0],
        [0.0, 1, 0, 0, 1, -0.5, 0, 0, 0, 1],
    ]
)
MIXED_CODES = np.array([[0, 1, 1, 1], [3, 0, 2, 0], [4, 2, 0, 2]])


def mixed_tables():
    frame = pd.DataFrame(MIXED_ROWS)
    nullable = frame.convert_dtypes()
    return {
        "pandas": frame,
        "pandas nullable": nullable,
        "pandas objects": frame.astype(object),
        "pandas categorical": frame.astype({"race": "category", "kind": "category"}),
        "pandas arrow": nullable.convert_dtypes(dtype_backend="pyarrow"),
        "polars": pl.DataFrame(MIXED_ROWS),
        "polars categorical": pl.DataFrame(MIXED_ROWS).cast({"race": pl.Categorical}),
        "pyarrow": pa.table(MIXED_ROWS),
        "pyarrow dictionary": pa.table(
            {**MIXED_ROWS, "race": pa.array(MIXED_ROWS["race"]).dictionary_encode()}
        ),
        "numpy": np.array(list(zip(*MIXED_ROWS.values(), strict=True)), dtype=object),
    }


@pytest.mark.parametrize("name", mixed_tables())
def test_every_kind_of_table_is_encoded_alike(name):
    table = mixed_tables()[name]
    encoder = PolicyEncoder(MIXED)
    np.testing.assert_array_equal(encoder.fit_transform(table), MIXED_MATRIX)
    np.testing.assert_array_equal(encoder.codes(table), MIXED_CODES)


def test_columns_are_found_by_name_and_others_ignored():
    frame = pd.DataFrame(MIXED_ROWS)[["kind", "race", "smoker", "age"]]
    frame["unused"] = SECRET
    np.testing.assert_array_equal(PolicyEncoder(MIXED).transform(frame), MIXED_MATRIX)


def test_blocks_names_and_texts():
    encoder = PolicyEncoder(MIXED)
    assert [(b.name, b.start, b.stop, b.kind, b.role) for b in encoder.blocks_] == [
        ("age", 0, 1, "number", "sensitive"),
        ("age:missing", 1, 2, "flag", "sensitive"),
        ("race", 2, 5, "one_hot", "insensitive"),
        ("smoker", 5, 6, "number", "public"),
        ("smoker:missing", 6, 7, "flag", "public"),
        ("kind", 7, 9, "one_hot", "sensitive"),
        ("kind:missing", 9, 10, "flag", "sensitive"),
    ]
    assert encoder.blocks_ == policy_blocks(MIXED)
    assert encoder.blocks_[2].columns == slice(2, 5)
    assert list(encoder.get_feature_names_out()) == [
        "age",
        "age=(missing)",
        "race=a",
        "race=b",
        "race=(other)",
        "smoker",
        "smoker=(missing)",
        "kind=1",
        "kind=2",
        "kind=(missing)",
    ]
    assert encoder.describe_columns() == (
        "age (0 to 100)",
        "age is missing",
        "race = a",
        "race = b",
        "race = any other value",
        "smoker (false to true)",
        "smoker is missing",
        "kind = 1",
        "kind = 2",
        "kind is missing",
    )
    assert encoder.n_codes == {"age": 5, "race": 3, "smoker": 3, "kind": 3}


@pytest.mark.parametrize(
    ("domain", "geometry"),
    [
        (NumberDomain(0, 1), [(0.5, 1.0, True)]),
        (NumberDomain(0, 1, missing=Slot()), [(0.5, 1.0, True), (1.0, 1.0, True)]),
        (BooleanDomain(), [(0.5, 1.0, False)]),
        (BooleanDomain(Slot()), [(0.5, 1.0, True), (1.0, 1.0, True)]),
        (CategoryDomain(("a", "b")), [(1.0, math.sqrt(2), False)]),
        (CategoryDomain(("a",), other=True), [(1.0, math.sqrt(2), False)]),
        (CategoryDomain(("a",)), [(1.0, 0.0, False)]),
        (
            CategoryDomain(("a",), missing=Slot()),
            [(1.0, 1.0, True), (1.0, 1.0, True)],
        ),
        (
            CategoryDomain(("a", "b"), missing=Slot()),
            [(1.0, math.sqrt(2), True), (1.0, 1.0, True)],
        ),
        (CategoryDomain(("a", "b"), groups={"g": ["a", "b"]}), [(1.0, 0.0, False)]),
    ],
)
def test_radius_diameter_and_zero_code(domain, geometry):
    blocks = encoder_of(domain).blocks_
    assert [(b.radius, b.diameter, b.includes_zero) for b in blocks] == geometry


def test_numbers_are_centered_and_clipped_infinities_too():
    domain = NumberDomain(10, 30)
    values = [10, 30, 20, 15.0, -1e300, 1e300, math.inf, -math.inf, 10**400, -(10**400)]
    expected = [-0.5, 0.5, 0.0, -0.25, -0.5, 0.5, 0.5, -0.5, 0.5, -0.5]
    assert encoded(domain, values)[:, 0].tolist() == expected


def test_numbers_of_any_kind_are_read():
    values = [True, Decimal("0.5"), np.float32(0.25), 1]
    assert encoded(NumberDomain(0, 1), values)[:, 0].tolist() == [0.5, 0, -0.25, 0.5]


def test_missing_numbers_are_replaced_as_declared():
    domain = NumberDomain(0, 10, 5, Replace(7.5))
    for values in ([None, 5.0], [math.nan, 5.0], [pd.NA, 5.0], [pd.NaT, 5.0]):
        assert encoded(domain, values)[:, 0].tolist() == [0.25, 0.0]


def test_numbers_fall_into_equal_width_bins():
    encoder = encoder_of(NumberDomain(0, 10, 5))
    values = np.array([[-1.0], [0.0], [1.99], [2.0], [9.99], [10.0], [11.0]])
    assert encoder.codes(values)[:, 0].tolist() == [0, 0, 0, 1, 4, 4, 4]


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 2]),
        np.array([1, 2], dtype=np.uint64),
        np.array([1.0, 2.0], dtype=np.float32),
        ["1", "2"],
        [1, 2.0],
        np.array(["1", "2"]),
    ],
)
def test_numbers_as_categories_are_compared_by_canonical_text(values):
    encoder = encoder_of(CategoryDomain((2, 1.0)))
    frame = pd.DataFrame({"f": values})
    assert encoder.transform(frame).tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("kind", [float, np.float32, np.int64, np.uint64])
def test_numbers_that_no_category_spells_are_not_looked_at_one_by_one(
    kind, monkeypatch
):
    looked = []
    monkeypatch.setattr(
        "corrdp.policy._coding.canonical_text",
        lambda value: looked.append(value) or canonical_text(value),
    )
    encoder = encoder_of(CategoryDomain(("3", "07.0", "x"), other=True))
    codes = encoder.codes(np.arange(50_000, dtype=kind)[:, None])[:, 0]
    assert set(np.flatnonzero(codes != 3)) == {3, 7}
    assert codes[[3, 7]].tolist() == [0, 1]
    assert len(looked) <= 2


def test_booleans_as_categories():
    encoder = encoder_of(CategoryDomain((True, "x"), other=True))
    frame = pd.DataFrame({"f": [True, False]})
    assert encoder.codes(frame)[:, 0].tolist() == [0, 2]


def test_text_is_compared_as_text_first_and_as_a_number_then():
    domain = CategoryDomain(("1", "01", "1.0", "nan", "inf"), other=True)
    values = ["1.0", "01", "1", "nan", " 1", "1e0", "2", "1,0"]
    frame = pd.DataFrame({"f": pd.Series(values, dtype=object)})
    codes = encoder_of(domain).codes(frame)[:, 0].tolist()
    assert codes == [2, 1, 0, 3, 0, 0, 5, 5]
    floats = np.array([[1.0], [math.inf], [1.5]])
    assert encoder_of(domain).codes(floats)[:, 0].tolist() == [0, 4, 5]


def test_large_integers_are_not_confused():
    domain = CategoryDomain((2**60, 2**63 + 1), other=True)
    signed = np.array([[2**60], [2**60 + 1]])
    assert encoder_of(domain).codes(signed)[:, 0].tolist() == [0, 2]
    unsigned = np.array([[2**63 + 1], [2**63]], dtype=np.uint64)
    assert encoder_of(domain).codes(unsigned)[:, 0].tolist() == [1, 2]


@pytest.mark.parametrize("size", [2**60, 7])
def test_a_missing_row_does_not_round_the_integers_of_others(size):
    domain = CategoryDomain((size, 3), other=True, missing=Slot())
    for table in (
        pd.DataFrame({"f": pd.Series([size, size + 1, None], dtype="Int64")}),
        pl.DataFrame({"f": [size, size + 1, None]}),
        pa.table({"f": [size, size + 1, None]}),
    ):
        assert encoder_of(domain).codes(table)[:, 0].tolist() == [0, 2, 3]


def test_declared_missing_texts_are_categories_and_others_are_missing():
    domain = CategoryDomain(("NA", "", "a"), missing=Slot())
    values = ["NA", "", "a", "null", "nan", None]
    for table in (
        pd.DataFrame({"f": pd.Series(values, dtype=object)}),
        pl.DataFrame({"f": values}),
        np.array(values, dtype=object)[:, None],
    ):
        codes = encoder_of(domain).codes(table)[:, 0].tolist()
        assert codes == [0, 1, 2, 3, 3, 3]


def test_cells_that_cannot_be_read_are_missing_where_that_is_declared():
    values = ["0.5", "V58", 0.25, None, [1]]
    number = NumberDomain(0, 1, missing=Replace(1.0))
    assert encoded(number, values)[:, 0].tolist() == [0.0, 0.5, -0.25, 0.5, 0.5]
    boolean = BooleanDomain(Slot())
    matrix = encoded(boolean, ["True", "maybe", 0, 2, None])
    assert matrix.tolist() == [[0.5, 0], [0, 1], [-0.5, 0], [0, 1], [0, 1]]


def test_integers_that_no_category_names_are_unknown():
    domain = CategoryDomain(("a",), other=True)
    assert encoder_of(domain).codes(np.array([[1]])).tolist() == [[1]]


def test_unknown_categories_are_replaced_as_declared():
    domain = CategoryDomain(("a", "b"), unknown=Replace("b"), missing=Replace("a"))
    for odd in ("zzz", 3, [1], datetime.date(2020, 1, 1)):
        values = ["a", odd, None]
        assert encoded(domain, values).tolist() == [[1, 0], [0, 1], [1, 0]]


def test_merged_categories_share_a_column():
    domain = CategoryDomain(("a", "b", "c"), groups={"ac": ["a", "c"]})
    assert encoded(domain, ["a", "b", "c"]).tolist() == [[1, 0], [0, 1], [1, 0]]


def test_the_name_of_a_group_stands_for_its_members():
    """As synthetic tables and predictions write it."""
    domain = CategoryDomain(("a", "b", "c"), groups={"ac": ["a", "c"]})
    assert encoded(domain, ["ac", "b", "a"]).tolist() == [[1, 0], [0, 1], [1, 0]]


def test_booleans_may_be_words_or_numbers():
    values = [True, "True", "TRUE", "true", 1, 1.0, np.bool_(True)]
    assert encoded(BooleanDomain(), values)[:, 0].tolist() == [0.5] * 7
    assert encoded(BooleanDomain(Replace(True)), [0, None])[:, 0].tolist() == [
        -0.5,
        0.5,
    ]
    zeros_and_ones = np.array([[0], [1]])
    assert encoder_of(BooleanDomain()).transform(zeros_and_ones).tolist() == [
        [-0.5],
        [0.5],
    ]


def test_float32_stays_in_the_domain():
    values = np.linspace(-0.1, 1.1, 1001).reshape(-1, 1)
    matrix = encoder_of(NumberDomain(0, 1), dtype=np.float32).transform(values)
    assert matrix.dtype == np.float32
    assert matrix.min() == -0.5
    assert matrix.max() == 0.5


def test_labels():
    encoder = PolicyEncoder(MIXED)
    for labels in (["yes", "no"], pd.Series(["yes", "no"]), pl.Series(["yes", "no"])):
        assert encoder.encode_label(labels).tolist() == [1, 0]
    assert encoder.encode_label(pa.chunked_array([["yes", "no"]])).tolist() == [1, 0]
    assert encoder.encode_label(np.array([["yes"], ["no"]])).tolist() == [1, 0]
    number = Policy(MIXED.features, Label("y", NumberDomain(0, 4), 1.0))
    assert PolicyEncoder(number).encode_label([0, 1, 9]).tolist() == [-0.5, -0.25, 0.5]


def test_some_codes_only():
    encoder = PolicyEncoder(MIXED)
    expected = MIXED_CODES[:, [3, 1]]
    few = pl.DataFrame(MIXED_ROWS).select("race", "kind")
    np.testing.assert_array_equal(encoder.codes(few, ["kind", "race"]), expected)
    array = mixed_tables()["numpy"]
    np.testing.assert_array_equal(encoder.codes(array, ["kind", "race"]), expected)


def test_scikit_learn_conventions():
    encoder = PolicyEncoder(MIXED, dtype="float32")
    check_is_fitted(encoder)
    assert clone(encoder).get_params() == encoder.get_params()
    frame = pd.DataFrame(MIXED_ROWS)
    fitted = encoder.fit(frame)
    assert fitted is encoder
    assert fitted.n_features_in_ == 4
    assert list(fitted.feature_names_in_) == list(MIXED_ROWS)
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.transform(frame), MIXED_MATRIX)
    np.testing.assert_array_equal(
        make_pipeline(encoder).fit_transform(frame), MIXED_MATRIX
    )
    named = clone(encoder).set_output(transform="pandas").fit_transform(frame)
    assert list(named.columns) == list(encoder.get_feature_names_out())


def test_nothing_is_learnt_from_the_table_that_fit_saw():
    frame = pd.DataFrame(MIXED_ROWS)
    other = pd.DataFrame(MIXED_ROWS).iloc[::-1]
    seen_one = PolicyEncoder(MIXED).fit(frame)
    seen_other = PolicyEncoder(MIXED).fit(other)
    assert {k: repr(v) for k, v in vars(seen_one).items()} == {
        k: repr(v) for k, v in vars(seen_other).items()
    }


class _LearningEncoder(PolicyEncoder):
    """The bug that the test above must catch: bounds read from the data."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self.seen_ = X["age"].iloc[0]
        return self


def test_an_encoder_that_learns_is_caught():
    frame = pd.DataFrame(MIXED_ROWS)
    seen_one = _LearningEncoder(MIXED).fit(frame)
    seen_other = _LearningEncoder(MIXED).fit(frame.iloc[::-1])
    assert repr(vars(seen_one)) != repr(vars(seen_other))


REFUSALS = {
    "missing number": (NumberDomain(0, 1), [0.5, None], ["'f'", "missing_value"]),
    "missing category": (CategoryDomain(("a",)), ["a", None], ["'f'", "slot"]),
    "missing boolean": (BooleanDomain(), [True, None], ["'f'", "slot"]),
    "unknown category": (
        CategoryDomain(("a",)),
        ["a", SECRET],
        ["'f'", "1 declared categories", "other = true"],
    ),
    "unknown boolean": (BooleanDomain(), [True, SECRET], ["'f'", "boolean"]),
    "text for a number": (NumberDomain(0, 1), [0.5, SECRET], ["'f'", "Convert"]),
    "list for a category": (CategoryDomain(("a",)), ["a", [SECRET]], ["'f'"]),
    "list for a number": (NumberDomain(0, 1), [0.5, [SECRET]], ["'f'"]),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_name_the_column_and_never_a_value(case):
    domain, values, said = REFUSALS[case]
    features = (Feature("f", "sensitive", domain),)
    encoder = PolicyEncoder(Policy(features, Label("y", CategoryDomain(("a",)), 0)))
    frame = pd.DataFrame({"f": pd.Series(values, dtype=object), "g": SECRET})
    for action in (
        lambda: encoder.transform(frame),
        lambda: encoder.transform(frame[["f"]].to_numpy()),
    ):
        message = refusal(action)
        for part in said:
            assert part in message
        assert SECRET not in message


def test_refused_labels_are_not_shown():
    encoder = PolicyEncoder(MIXED)
    assert SECRET not in refusal(lambda: encoder.encode_label(["yes", SECRET]))
    assert SECRET not in refusal(lambda: encoder.encode_label(SECRET))
    assert SECRET not in refusal(lambda: encoder.encode_label(np.full((2, 2), SECRET)))


def test_a_message_with_a_value_is_caught():
    def careless():
        try:
            float(SECRET)
        except ValueError as error:
            raise PolicyError("Column 'f' is declared a number.") from error

    assert SECRET in refusal(careless)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pd.DataFrame({"age": [1]}), ["'race', 'smoker', 'kind'", "Add them"]),
        (np.zeros((2, 3)), ["4 columns", "age, race, smoker, kind"]),
        (np.zeros(4), ["4 columns"]),
        ({"age": [SECRET]}, ["dict", "pandas"]),
        (pl.LazyFrame(MIXED_ROWS), ["LazyFrame", "pandas"]),
        (None, ["NoneType"]),
        (
            pd.DataFrame([[1, 2]], columns=["age", "age"]),
            ["two columns of the same name", "Rename"],
        ),
    ],
)
def test_tables_that_do_not_fit(table, said):
    for action in (PolicyEncoder(MIXED).fit, PolicyEncoder(MIXED).transform):
        message = refusal(lambda action=action: action(table))
        for part in said:
            assert part in message
        assert SECRET not in message


def test_parameters_are_checked():
    values = np.zeros((1, 1))
    encoder = encoder_of(NumberDomain(0, 1), dtype=np.int64)
    assert "float32" in refusal(lambda: encoder.fit(values))
    plain = encoder_of(NumberDomain(0, 1))
    assert "features.f.bins" in refusal(lambda: plain.codes(values))
    assert plain.n_codes == {}
    assert "label=None" in refusal(lambda: plain.encode_label([1]))
    assert "'g'" in refusal(lambda: plain.codes(values, ["g"]))


def test_names_that_would_collide_are_refused():
    domain = CategoryDomain(("(other)",), other=True)
    values = np.array([["x"]])
    assert "'f=(other)' twice" in refusal(lambda: encoder_of(domain).fit(values))
    flagged = Feature("f", "sensitive", BooleanDomain(Slot()))
    taken = Feature("f:missing", "sensitive", BooleanDomain())
    assert "'f:missing' twice" in refusal(
        lambda: policy_blocks(Policy((flagged, taken)))
    )


def refusal(action):
    """Return everything a user could see of a refusal, chained errors included."""
    with pytest.raises(PolicyError) as caught:
        action()
    error = caught.value
    shown = "".join(traceback.format_exception_only(error))
    while error.__cause__ or error.__context__:
        error = error.__cause__ or error.__context__
        shown += "".join(traceback.format_exception_only(error))
    return shown
