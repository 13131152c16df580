"""Drafts: every domain that was read from rows awaits confirmation."""

import datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corrdp.exceptions import PolicyError
from corrdp.policy import (
    DRAFT_BINS,
    BooleanDomain,
    CategoryDomain,
    DraftWishes,
    NumberDomain,
    Policy,
    PolicyEncoder,
    Replace,
    Slot,
    draft_policy,
    guess_domain,
)
from corrdp.policy._guess import (
    FEWEST_ROWS,
    MOST_CATEGORIES,
    MOST_NAMED_CATEGORIES,
    rounded_bounds,
)
from corrdp.tables import NO_TEXT, read_table

N_ROWS = 40


def wishes(**changes):
    given = {
        "target": "label",
        "sensitive": ("age",),
        "public": (),
        "left_out": (),
        "category": (),
        "label_protected": False,
    }
    return DraftWishes(**(given | changes))


def table(**columns):
    given = {
        "age": [20.5 + row for row in range(N_ROWS)],
        "label": ["yes", "no"] * (N_ROWS // 2),
    }
    return pa.table(given | columns)


def drafted(columns=None, **changes):
    text, draft = draft_policy(table(**(columns or {})), wishes(**changes))
    return Policy.from_toml(text), draft


def test_a_sensitive_column_with_decimal_commas_says_so():
    commas = [f"{1000 + row},{row:02d}" for row in range(N_ROWS - 1)] + ["1.200"]
    with pytest.raises(PolicyError, match="commas; write them with decimal points"):
        drafted({"wage": commas}, sensitive=("age", "wage"))
    with pytest.raises(PolicyError, match="move it from --sensitive to --leave-out"):
        drafted({"wage": commas}, sensitive=("age", "wage"))
    policy, _ = drafted({"wage": commas}, left_out=("wage",))
    assert [feature.name for feature in policy.features] == ["age"]


def test_a_column_without_a_name_is_left_out():
    policy, draft = drafted({"": range(N_ROWS)})
    assert [feature.name for feature in policy.features] == ["age"]
    assert "the column without a name" in draft.left_out


def test_bounds_are_rounded_outwards_and_marked():
    policy, draft = drafted()
    domain = policy.feature("age").domain
    assert (domain.lower, domain.upper) == (20.0, 60.0)  # 20.5 to 59.5 in steps of 5
    assert "features.age.bounds" in draft.unconfirmed
    assert "label.categories" in draft.unconfirmed
    assert policy.unconfirmed == tuple(draft.unconfirmed)


@pytest.mark.parametrize(
    ("values", "kind", "field"),
    [
        ([True, False] * 20, BooleanDomain, "type"),
        ([0, 1] * 20, BooleanDomain, "type"),
        ([1, 2] * 20, NumberDomain, "bounds"),
        ([7] * 40, CategoryDomain, "categories"),
        ([1, 2] * 20, NumberDomain, "bins"),
        ([0, 1] * 20, BooleanDomain, "digits"),
        (range(0, 400, 10), NumberDomain, "whole"),
        ([float("inf"), 1.5] * 20, NumberDomain, "bounds"),
        (["a", "b"] * 20, CategoryDomain, "categories"),
        (pa.array(["a", "b"] * 20).dictionary_encode(), CategoryDomain, "categories"),
    ],
)
def test_types_are_guessed_and_every_domain_is_marked(values, kind, field):
    policy, draft = drafted({"x": values})
    assert isinstance(policy.feature("x").domain, kind)
    assert f"features.x.{field}" in draft.unconfirmed


@pytest.mark.parametrize("as_text", [False, True])
def test_codes_that_are_whole_numbers_get_a_bin_each(as_text):
    stages = [1, 2, 3, 4] * 10
    policy, _ = drafted({"stage": [str(s) for s in stages] if as_text else stages})
    domain = policy.feature("stage").domain
    assert (domain.lower, domain.upper, domain.bins) == (0.5, 4.5, 4)
    assert domain.whole
    assert domain.steps == (1, 2, 3, 4)
    assert domain.missing == Replace(2.0)


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 4, 5] * 10,  # nobody has 3
        [*([1, 2, 3] * 13), 4],  # one row alone has 4, and must not show
        [*range(20), *range(20)],  # too many
    ],
    ids=["gap", "rare", "many"],
)
def test_other_whole_numbers_are_rounded_outwards(values):
    policy, draft = drafted({"x": values})
    domain = policy.feature("x").domain
    assert domain.bins == DRAFT_BINS
    assert domain.whole
    assert domain.steps is None
    assert "features.x.bins" not in draft.unconfirmed
    assert [domain.lower, domain.upper] == rounded_bounds(pa.array(map(float, values)))


def test_a_column_of_one_number_is_a_category_of_one_value():
    text, draft = draft_policy(table(study=[4001] * N_ROWS), wishes())
    feature = Policy.from_toml(text).feature("study")
    assert feature.domain.values == (4001,)
    assert feature.domain.unknown == feature.domain.missing == Replace("4001")
    assert feature.known_leakage == 0.0
    assert text.count("# leakage = 1.0") == 0
    assert "features.study.categories" in draft.unconfirmed


@pytest.mark.parametrize(
    ("values", "replacement"),
    [
        ([1.0, 3.0], 2),
        (["a", "b", "b", "b"], "b"),
        ([True, False], False),
        (["1.5", "3.5", "2"], 2.5),
    ],
    ids=["numbers", "categories", "booleans", "text"],
)
def test_missing_values_get_a_slot_if_there_are_any(values, replacement):
    whole = (values * N_ROWS)[:N_ROWS]
    policy, draft = drafted({"x": whole})
    assert policy.feature("x").domain.missing == Replace(replacement)
    assert "features.x.missing" not in draft.unconfirmed
    policy, draft = drafted({"x": [None, *whole[1:]]})
    assert isinstance(policy.feature("x").domain.missing, Slot)
    assert "features.x.missing" in draft.unconfirmed


def test_unknown_values_become_the_commonest_category():
    policy, draft = drafted({"x": ["a", "b", "b", "b"] * 10})
    domain = policy.feature("x").domain
    assert domain.unknown == Replace("b")
    assert not domain.other  # a slot without rows has no provable leakage
    for read in ("categories", "unknown", "missing_value"):
        assert f"features.x.{read}" in draft.unconfirmed


def test_rows_that_init_has_not_seen_are_not_refused():
    text, _ = draft_policy(
        table(x=["a", "b"] * 20, y=[1.5, None] * 20), wishes(sensitive=("age", "x"))
    )
    policy = Policy.from_toml(text)
    later = pa.table({"age": [None, 1e9], "x": [None, "never seen"], "y": [7.5, None]})
    assert PolicyEncoder(policy).transform(later).shape[0] == 2


def test_many_values_are_categories_if_their_owner_says_so():
    states = [f"state {row % 40}" for row in range(400)] + ["alone"]
    rows = pa.table(
        {"age": range(401), "x": states, "label": ["a"] * 200 + ["b"] * 201}
    )
    _, unnamed = draft_policy(rows, wishes())
    assert "name it in --category" in unnamed.left_out["x"]
    text, _ = draft_policy(rows, wishes(category=("x",)))
    domain = Policy.from_toml(text).feature("x").domain
    assert len(domain.categories) == 40
    assert "alone" not in text  # one row holds it: it falls into `other`
    assert domain.other


def test_there_are_too_many_values_for_a_category():
    many = [f"v{row // 3}" for row in range(3 * (MOST_NAMED_CATEGORIES + 1))]
    rows = pa.table(
        {"age": range(len(many)), "x": many, "label": ["a", "b", "b"] * 501}
    )
    _, draft = draft_policy(rows, wishes(category=("x",)))
    assert str(MOST_NAMED_CATEGORIES) in draft.left_out["x"]
    assert "--category" not in draft.left_out["x"]


def test_numbers_can_be_declared_categories():
    policy, _ = drafted({"x": [1, 2] * 20}, category=("x",))
    assert policy.feature("x").domain.categories == ("1", "2")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([None] * N_ROWS, "no values"),
        ([f"id-{row}" for row in range(N_ROWS)], "identifier"),
        (pa.array([0] * N_ROWS, pa.date32()), "dates"),
        (pa.array([[1]] * N_ROWS), "lists"),
    ],
)
def test_what_cannot_be_drafted_is_left_out_or_refused(values, reason):
    policy, draft = drafted({"x": values})
    assert reason in draft.left_out.get("x", "")
    assert [feature.name for feature in policy.features] == ["age"]
    for role in ({"sensitive": ("age", "x")}, {"target": "x"}):
        with pytest.raises(PolicyError, match="'x'"):
            drafted({"x": values}, **role)


ODD = [NO_TEXT, "secret\x1b[2J", "secret\x85"]


@pytest.mark.parametrize("odd", ODD)
def test_values_that_cannot_be_declared_are_not_listed(odd):
    """Lists and times have no text; others have control characters."""
    policy, draft = drafted({"x": ["a", odd, odd, None] * (N_ROWS // 4)})
    domain = policy.feature("x").domain
    assert domain.categories == ("a",)
    assert domain.other
    assert isinstance(domain.missing, Slot)
    _, draft = drafted({"x": [odd] * N_ROWS})
    assert "lists, times or control characters" in draft.left_out["x"]
    for role in ({"sensitive": ("x",)}, {"target": "x"}):
        with pytest.raises(PolicyError, match="write its values otherwise") as refusal:
            drafted(
                {"x": ["a", odd] * (N_ROWS // 2)}
                if "target" in role
                else {"x": [odd] * N_ROWS},
                **role,
            )
        assert "secret" not in str(refusal.value)


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), 1e305, "9" * 400])
def test_one_number_that_no_category_can_be_is_a_number(value):
    policy, _ = drafted({"x": [value] * N_ROWS})
    assert isinstance(policy.feature("x").domain, NumberDomain)


def test_a_column_whose_name_cannot_be_declared_is_left_out():
    policy, draft = drafted({"two\nlines": ["a", "b"] * (N_ROWS // 2)})
    assert [feature.name for feature in policy.features] == ["age"]
    assert "rename it" in draft.left_out["two\nlines"]
    for role in ({"sensitive": ("two\nlines",)}, {"target": "two\nlines"}):
        with pytest.raises(PolicyError, match="rename it"):
            drafted({"two\nlines": ["a", "b"] * (N_ROWS // 2)}, **role)


def test_a_refusal_quotes_no_value():
    values = [f"secret-{row}" for row in range(N_ROWS)]
    with pytest.raises(PolicyError) as refusal:
        drafted({"x": values}, sensitive=("x",))
    assert "secret" not in str(refusal.value)


def test_labels_with_missing_values_are_refused():
    with pytest.raises(PolicyError, match="missing"):
        drafted({"label": [None, "yes"] * 20})


@pytest.mark.parametrize("protected", [False, True])
def test_the_label_is_what_the_user_chose(protected):
    policy, _ = drafted(label_protected=protected)
    assert policy.label_is_protected is protected
    assert not isinstance(policy.label.domain, NumberDomain)


def test_a_number_label_has_bounds_and_no_bins():
    policy, draft = drafted({"label": [0.1 * row for row in range(N_ROWS)]})
    assert policy.label.domain.bins is None
    assert "label.bounds" in draft.unconfirmed


# --- what could name a person is not written down


COMMENTS = [
    "patient asked for a second opinion",
    "came with her sister Anna, wants to leave soon",
    "no remarks from the night shift today",
]
PERSONAL = {
    "few comments": ([COMMENTS[row % 3] for row in range(N_ROWS)], "free text"),
    "long": (["x" * 61, "7731"] * 20, "free text"),
    "lines": (["a\nb", "7731"] * 20, "free text"),
    "names": ([f"Smith {row % 25}" for row in range(N_ROWS)], "could name one"),
    "mail": ([f"a{row % 9}@b.org" for row in range(N_ROWS)], "addresses"),
    "pages": ([f"https://b.org/{row % 9}" for row in range(N_ROWS)], "addresses"),
    "dates": ([f"2020-01-{row % 9 + 10}" for row in range(N_ROWS)], "dates"),
    "other dates": ([f"{row % 9 + 1}/12/1999" for row in range(N_ROWS)], "dates"),
    "months": ([f"{row % 9 + 1} May 2001" for row in range(N_ROWS)], "dates"),
    "compact": ([f"202001{row % 9 + 10}" for row in range(N_ROWS)], "dates"),
    "moments": ([f"2020-01-10T{row % 9 + 10}:00" for row in range(N_ROWS)], "dates"),
    "times": ([f"{row % 9 + 10}:30" for row in range(N_ROWS)], "times"),
    "one odd date": (["never", *["2020-01-10"] * (N_ROWS - 1)], "dates"),
    "timestamps": ([datetime.datetime(2020, 1, 1)] * N_ROWS, "dates"),
    "row numbers": (list(range(1000, 1000 + N_ROWS)), "identifier"),
    "row numbers as text": ([str(1000 + row) for row in range(N_ROWS)], "identifier"),
    "keys": ([f"k{row}" for row in range(N_ROWS)], "identifier"),
}


@pytest.mark.parametrize(("values", "reason"), PERSONAL.values(), ids=PERSONAL.keys())
def test_what_could_name_a_person_is_left_out_with_the_reason(values, reason):
    text, draft = draft_policy(table(x=values), wishes())
    assert reason in draft.left_out.get("x", "")
    assert f"#   x: {draft.left_out['x']}" in text  # said in the file too
    assert not [name for name in draft.unconfirmed if ".x." in name]
    for value in values:
        assert str(value) not in text
        assert str(value) not in draft.left_out["x"]


def test_numbers_named_like_a_key_are_left_out():
    values = [7 * row * row for row in range(N_ROWS)]
    for name in ("patient_id", "patientID", "ssn", "MRN"):
        _, draft = drafted({name: values})
        assert "identifier" in draft.left_out[name]
    policy, _ = drafted({"paid": values})
    assert isinstance(policy.feature("paid").domain, NumberDomain)


def test_a_doubtful_column_that_was_asked_for_is_marked():
    values = list(range(1000, 1000 + N_ROWS))
    text, draft = draft_policy(table(x=values), wishes(public=("x",)))
    assert "x" not in draft.left_out
    assert "identifier" in draft.doubtful["x"]
    assert "looks like an identifier: should it be left out?" in text


def test_a_value_of_very_few_rows_is_not_listed():
    rare, common = FEWEST_ROWS - 1, FEWEST_ROWS
    values = ["rare"] * rare + ["common"] * common
    values += ["usual"] * (N_ROWS - len(values))
    text, _ = draft_policy(table(x=values), wishes())
    domain = Policy.from_toml(text).feature("x").domain
    assert domain.categories == ("common", "usual")
    assert domain.other
    assert "rare" not in text


# --- cells as text, as CSV columns are read


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1.5", "2"], NumberDomain),
        (["1.5", "2", ""], NumberDomain),
        (["1.5", "2.5", "NA", "nan"], NumberDomain),
        (["-1e3", "+2.5", " 7 "], NumberDomain),
        (["1.5", "2.5", "3.5", "?"], NumberDomain),  # one word for missing
        (["1.5", "?", "unknown", "2"], CategoryDomain),
        (["250.0", "V58", "E11", "401"], CategoryDomain),
        (["01", "02"], CategoryDomain),
        (["0", "1"], BooleanDomain),
        (["True", "False"], BooleanDomain),
        (["true", "FALSE", ""], BooleanDomain),
        (["true", "maybe"], CategoryDomain),
    ],
)
@pytest.mark.parametrize("large", [False, True])
def test_types_are_guessed_from_text(cells, kind, large):
    values = (cells * N_ROWS)[:N_ROWS]
    column = pa.array(values, pa.large_string() if large else pa.string())
    policy, _ = drafted({"x": column})
    assert isinstance(policy.feature("x").domain, kind)


def test_missing_texts_are_no_categories():
    policy, _ = drafted({"x": ["a", "b", "NA", ""] * 10})
    assert policy.feature("x").domain.categories == ("a", "b")


def test_text_labels_with_missing_cells_are_refused():
    with pytest.raises(PolicyError, match="missing"):
        drafted({"label": ["yes", "NA"] * 20})


@pytest.mark.parametrize("values", [["0", "1"], [0, 1], [0.0, 1.0]])
def test_labels_zero_and_one_stay_numbers(values):
    policy, draft = drafted({"label": values * 20})
    assert policy.label.domain.categories == ("0", "1")
    assert "label.categories" in draft.unconfirmed


@pytest.mark.parametrize(
    ("values", "declared"),
    [
        (["1", "2"], [1, 2]),
        ([-1, 1], [-1, 1]),
        ([3.0, 1234567890123.0], [3, 1234567890123]),
    ],
)
def test_labels_of_two_whole_numbers_are_categories(values, declared):
    """Whole numbers with two values are codes: R writes no and yes as 1 and 2."""
    policy, draft = drafted({"label": values * 20})
    assert list(policy.label.domain.values) == declared
    assert "label.categories" in draft.unconfirmed
    policy, _ = drafted({"label": [0.5, 1.5] * 20})
    assert isinstance(policy.label.domain, NumberDomain)


def test_numbers_as_text_can_be_declared_categories():
    policy, _ = drafted({"x": ["1", "2"] * 20}, category=("x",))
    assert policy.feature("x").domain.categories == ("1", "2")


# --- bounds


finite = st.floats(-1e12, 1e12, allow_nan=False).map(lambda x: x if x else 0.0)


@example([1e-10])
@example([1e12, 1e12 + 1e-3])
@example([5e-324])
@given(st.lists(finite, min_size=1, max_size=20))
def test_bounds_lie_strictly_outside_the_values(values):
    lower, upper = rounded_bounds(pa.array(values, pa.float64()))
    assert lower < min(values) or min(values) == lower == 0
    assert upper > max(values) or max(values) == upper == 0
    assert lower < upper


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([17, 90], [10, 100]),
        ([0, 100], [0, 120]),
        ([0.001, 0.0042], [0.0005, 0.0045]),
        ([1945, 2003], [1940, 2010]),
        ([7], [6, 8]),
        ([0], [0, 0.2]),
        ([-5, 0], [-6, 0]),
    ],
)
def test_bounds_are_round_numbers(values, bounds):
    assert rounded_bounds(pa.array(values, pa.float64())) == bounds


def test_the_same_bounds_for_values_nearby():
    """An exact minimum cannot be read off: many tables draft the same bounds."""
    for low, high in [(20.5, 59.5), (21.3, 57.0), (24.9, 55.1)]:
        assert rounded_bounds(pa.array([low, high])) == [20, 60]


# --- names


def test_a_misspelt_column_is_met_with_the_right_one():
    with pytest.raises(PolicyError, match="Did you mean 'age'"):
        drafted(sensitive=("Agee",))
    with pytest.raises(PolicyError, match=r"not a column\. Columns: age"):
        drafted(sensitive=("income",))


def test_column_names_cannot_write_into_the_file():
    name = 'x\n[features.y]\nrole = "public"'
    text, draft = draft_policy(table(**{name: [None] * N_ROWS}), wishes())
    assert name in draft.left_out
    assert [f.name for f in Policy.from_toml(text).features] == ["age"]


def test_more_values_than_categories_may_have_are_left_out():
    values = [f"v{row % (MOST_CATEGORIES + 1)}" for row in range(N_ROWS)]
    _, draft = drafted({"x": values})
    assert str(MOST_CATEGORIES) in draft.left_out["x"]


def test_a_protected_number_as_label_has_bins():
    """What a column tells about a protected label is counted in them."""
    numbers = {"label": [float(row) for row in range(N_ROWS)]}
    policy, _ = drafted(numbers, label_protected=True)
    assert policy.label.domain.bins == DRAFT_BINS
    policy, _ = drafted(numbers)
    assert policy.label.domain.bins is None


@pytest.mark.parametrize("name", ["rownames", "Unnamed: 0", "index", "seqno", "row_no"])
def test_numbers_of_rows_by_name_are_left_out(name):
    """As tables have them of which rows were taken away."""
    _, draft = drafted({name: [7 * row + 4 for row in range(N_ROWS)]})
    assert draft.left_out == {name: "it looks like an identifier"}


def test_a_wide_table_is_not_listed_whole():
    wide = {f"c{i}": [1.5] * N_ROWS for i in range(800)}
    with pytest.raises(PolicyError, match="and 772 more") as caught:
        drafted(wide, sensitive=("nobody",))
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("is_label", [False, True])
def test_a_value_of_its_own_in_every_row_is_no_category_that_can_be_named(is_label):
    """A label lists what single rows hold: none of it may name them all."""
    names = pa.chunked_array([[f"person {row}" for row in range(100)]])
    guess = guess_domain("label", names, as_category=True, is_label=is_label)
    assert guess.domain == {}
    assert "an identifier" in guess.reason


@pytest.mark.parametrize("category", [(), ("x",)])
@pytest.mark.parametrize(
    "values",
    [
        [Decimal("1.10"), Decimal("2.50")] * 20,
        [1.0, float("inf")] * 20,
        [float("inf"), -float("inf")] * 10 + [*range(20)],
        [1e305, 1.0] * 20,
        [0.0, -0.0] * 20,
        [1, 2, 3, None] * 10,
        [True, None] * 20,
        [b"a", b"\xff"] * 20,
    ],
)
def test_a_table_with_types_is_drafted_as_the_file_of_it(values, category, tmp_path):
    rows = table(x=values)
    pq.write_table(rows, tmp_path / "t.parquet")
    read = read_table(tmp_path / "t.parquet", number_columns=())
    text, draft = draft_policy(rows, wishes(category=category))
    assert (text, draft) == draft_policy(read, wishes(category=category))
    policy = Policy.from_toml(text)
    assert len(PolicyEncoder(policy).transform(rows)) == N_ROWS


def test_infinities_are_numbers():
    """Their ends are not read, and they do not count as a word for a missing one."""
    policy, _ = drafted({"x": [*map(str, range(20)), *["inf", "-Infinity"] * 10]})
    domain = policy.feature("x").domain
    assert isinstance(domain, NumberDomain)
    assert isinstance(domain.missing, Replace)  # and no slot
