"""Several rows of one person: which are kept, how far they move sums, refusals."""

import itertools
import json
import sqlite3
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from command_runner import run
from corrdp.estimators import LogisticRegression
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.ledger import Ledger
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    read_declared,
)
from corrdp.queries import answer_queries, plan_queries
from corrdp.queries._units import ROW, bounded_rows, public_size
from corrdp.tables import watching_rows

MAX_ROWS = 2
FEATURES = (
    Feature("dose", "sensitive", NumberDomain(0, 8, bins=2)),
    Feature("ward", "insensitive", CategoryDomain(("a", "b")), leakage=0.5),
    Feature("night", "insensitive", BooleanDomain(), leakage=0.25),
)
POLICY = Policy(FEATURES, unit="patient", max_rows=MAX_ROWS)
CORNERS = tuple(itertools.product((0.0, 4.0, 8.0), "ab", (False, True)))
ASKS = [
    "count()",
    "count() by ward",
    "count() where night",
    "count() by ward (a) where night",
    "sum(dose)",
    "sum(dose) by ward",
    "mean(dose) where night",
    "variance(dose) by ward",
    "histogram(dose)",
]


def records(longest):
    """Return all records of a unit: one to so many corner rows."""
    return [
        rows
        for length in range(1, longest + 1)
        for rows in itertools.product(CORNERS, repeat=length)
    ]


def table_of(*units):
    rows = [(f"p{n}", *row) for n, unit in enumerate(units) for row in unit]
    return pd.DataFrame(rows, columns=["patient", "dose", "ward", "night"])


def plan_of(*asks, policy=POLICY, size=50, **options):
    return plan_queries(
        policy, asks, budget=Budget(epsilon=1.0, delta=0.0), n_rows=size, **options
    )


def kept_columns(name, record):
    """Return what neighbors of a class share of the first rows of the unit."""
    fixed = {
        "sensitive": (1, 2),
        "insensitive:ward": (0, 2),
        "insensitive:night": (0, 1),
        "whole_record": (),
    }[name]
    return tuple(tuple(row[place] for place in fixed) for row in record)


def are_neighbors(name, first, second):
    """Insensitive classes keep the number of rows, the others do not."""
    shared = min(len(first), len(second))
    if name.startswith("insensitive") and len(first) != len(second):
        return False
    one, other = (kept_columns(name, record)[:shared] for record in (first, second))
    return one == other


@pytest.mark.parametrize("ask", ASKS)
def test_no_unit_moves_a_sum_farther_than_planned_and_some_unit_that_far(ask):
    """All records of up to three rows, of which two are used, under all classes."""
    plan = plan_of(ask)
    found = records(MAX_ROWS) + [
        (*rows, extra)
        for rows in itertools.product(CORNERS[::3], repeat=MAX_ROWS)
        for extra in CORNERS[1::5]
    ]
    # One table of all records at once: every unit is read alone.
    places = bounded_rows(table_of(*found), POLICY)
    per_unit = []
    for moment in plan.moments:
        sums = []
        for number in range(len(found)):
            start = number * MAX_ROWS
            alone = type(places)(
                places.table.iloc[start : start + MAX_ROWS],
                {ROW: places.columns[ROW][start : start + MAX_ROWS]},
            )
            sums.append(moment.evaluate(plan.view, alone))
        per_unit.append(np.array(sums))
    movement = plan.noise.movement
    for name in movement.classes:
        pairs = [
            (i, j)
            for (i, one), (j, other) in itertools.combinations(enumerate(found), 2)
            if are_neighbors(name, one, other)
        ]
        first, second = np.array(pairs).T
        for index, sums in enumerate(per_unit):
            moved = np.abs(sums[first] - sums[second])
            row = movement.row(name)
            assert moved.sum(axis=1).max() == movement.absolute[row, index], name
            assert (moved**2).sum(axis=1).max() <= movement.squared[row, index]


@pytest.mark.parametrize("convert", [lambda t: t, pl.from_pandas, pa.Table.from_pandas])
def test_places_of_a_unit_are_its_first_rows_whoever_stands_between_them(convert):
    rows = [("x", 1.0), ("x", 2.0), ("x", 3.0)]
    others = [("y", 8.0), ("z", 7.0), ("z", 6.0), ("y", 5.0)]
    seen = set()
    for mixing in itertools.combinations(range(7), 3):
        mine, theirs = iter(rows), iter(others)
        mixed = [next(mine) if n in mixing else next(theirs) for n in range(7)]
        table = pd.DataFrame(mixed, columns=["patient", "dose"])
        table["ward"], table["night"] = "a", True
        places = bounded_rows(convert(table), POLICY)
        frame = pl.from_arrow(pa.table(places.table)) if convert is not None else None
        frame = pd.DataFrame(
            {"patient": frame["patient"].to_list(), "dose": frame["dose"].to_list()}
        )
        assert len(frame) == 3 * MAX_ROWS
        own = frame[frame.patient == "x"]
        filled = places.columns[ROW][(frame.patient == "x").to_numpy()]
        seen.add((tuple(own.dose), tuple(filled)))
    assert seen == {((1.0, 2.0), ("yes", "yes"))}


FOLDERS = Policy(
    (
        Feature("ill", "sensitive", NumberDomain(0, 1)),
        Feature("ward", "insensitive", CategoryDomain(("0", "1", "2")), leakage=0.05),
    ),
    unit="who",
    max_rows=1,
)


def in_folders(root, ward):
    """One person has two rows in two wards, the second of which is `ward`."""
    for place, ill in (("1", 0.0), (ward, 1.0)):
        folder = root / f"ward={place}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"who": ["p"], "ill": [ill]}), folder / "rows.parquet")
    return root


@pytest.mark.parametrize(
    "source", ["directory", "glob", "dataset", "union", "filtered"]
)
def test_folders_of_a_protected_column_do_not_order_the_rows_of_a_unit(
    source, tmp_path
):
    """A row whose ward changes would come first, and bring another illness along."""
    for ward in ("0", "2"):
        root = in_folders(tmp_path / ward, ward)
        data = {"directory": root, "glob": f"{root}/*/*.parquet"}.get(source)
        if data is None:
            data = ds.dataset(root, partitioning="hive")
        if source == "union":
            data = ds.dataset([data])
        if source == "filtered":
            data = data.filter(ds.field("ill") < 2)
        asked = {"queries": ["mean(ill)"], "epsilon": 1.0}
        with pytest.raises(PolicyError, match="folders by their 'ward'"):
            answer_queries(data, FOLDERS, **asked)
        features = tuple(
            replace(f, role="public", leakage=None) if f.name == "ward" else f
            for f in FOLDERS.features
        )
        if source != "glob":  # which takes columns from files alone
            assert answer_queries(data, replace(FOLDERS, features=features), **asked)


@pytest.mark.parametrize("in_folder", [False, True])
def test_parts_of_a_filtered_dataset_are_looked_into(in_folder, tmp_path):
    """Of tables in memory and unions, a filter hides what they are made of."""
    ward = pa.array([1], pa.int32())  # as names of folders are read
    rows = pa.table({"who": ["p"], "ill": [1.0], "ward": ward})
    parts = [ds.dataset(rows)]
    if in_folder:
        parts.append(ds.dataset(in_folders(tmp_path, "2"), partitioning="hive"))
    kept = ds.field("ill") < 2
    found = [ds.dataset(parts).filter(kept), parts[-1].filter(kept)]
    for data in found:
        if in_folder:
            with pytest.raises(PolicyError, match="folders by their 'ward'"):
                read_declared(data, FOLDERS)
        else:
            assert read_declared(data, FOLDERS).num_rows == 1


def test_an_index_does_not_order_the_rows_of_a_unit(tmp_path):
    kept = []
    for ward in ("0", "2"):
        path = tmp_path / f"{ward}.db"
        with sqlite3.connect(path) as connection:
            connection.execute("create table t (who text, ward text, ill real)")
            connection.execute("create index i on t (who, ward, ill)")
            rows = [("p", "1", 0.0), ("p", ward, 1.0)]
            connection.executemany("insert into t values (?, ?, ?)", rows)
        connection.close()
        table = read_declared(f"{path}::t", FOLDERS)
        kept.append(bounded_rows(table, FOLDERS).table["ill"].to_pylist())
    assert kept == [[0.0], [0.0]]


@pytest.mark.parametrize(
    ("columns", "is_ordered"),
    [
        ("who text, ward text, ill real, primary key (who, ward)", False),
        ("who text, ward text primary key, ill real", False),
        ("who text, ward text, ill real, n integer primary key", False),
        ("who text, ward integer primary key desc, ill real", False),
        ("who text, ward integer primary key, ill real", True),
        ("who text, ward text, ill real, primary key (who, ward)) without rowid", True),
        ("who text, ward text, ill real, n int primary key) without rowid", False),
    ],
)
def test_a_key_does_not_order_the_rows_of_a_unit(columns, is_ordered, tmp_path):
    path = tmp_path / "rows.db"
    with sqlite3.connect(path) as connection:
        end = "" if columns.endswith("without rowid") else ")"
        connection.execute(f"create table 'of wards' ({columns}{end}")
        row = {"who": "p", "ward": "2", "ill": 0.0} | (
            {"n": 1} if "n int" in columns else {}
        )
        names, cells = ", ".join(row), tuple(row.values())
        marks = ", ".join("?" * len(row))
        connection.execute(f"insert into 'of wards' ({names}) values ({marks})", cells)
    connection.close()
    if is_ordered:
        with pytest.raises(PolicyError, match="lie in a table by their 'ward'"):
            read_declared(f"{path}::of wards", FOLDERS)
    else:
        assert read_declared(f"{path}::of wards", FOLDERS).num_rows == 1
    assert read_declared(f"{path}::of wards", Policy(FOLDERS.features)).num_rows == 1


def test_an_empty_place_counts_for_nothing():
    table = table_of([CORNERS[0]], [CORNERS[1]] * 5)
    places = bounded_rows(table, POLICY)
    assert places.columns[ROW].tolist() == ["yes", "no", "yes", "yes"]
    (moment,) = plan_of("count()", size=2).moments
    assert moment.evaluate(plan_of("count()").view, places).tolist() == [3]


def test_the_number_of_units_is_public_and_that_of_rows_is_not(tmp_path):
    """Two tables with as many units: same plan, same size in the ledger."""
    seen = []
    for number, units in enumerate(([1] * 40, [7] * 40)):
        table = table_of(*([CORNERS[3]] * n for n in units))
        assert public_size(table, POLICY) == 40
        path = tmp_path / f"ledger{number}"
        ledger = Ledger.create(path, POLICY, budget=Budget(epsilon=3.0, delta=0.0))
        result = answer_queries(
            table, POLICY, ["count()"], epsilon=1.0, ledger=ledger, random_state=0
        )
        assert result.answers[0].ask == "count()"
        assert result.answers[0].sampling_radius is None
        assert result.answers[0].radius > 0.0
        text = json.dumps([result.plan.to_json(), result.certificate.to_dict()])
        charges = [e for e in ledger.entries() if e["kind"] == "charge"]
        seen.append((text, [charge["data"]["n_rows"] for charge in charges]))
    assert seen[0] == seen[1]
    assert seen[0][1] == [40 * MAX_ROWS]


def test_nobody_is_told_how_many_rows_were_read(tmp_path):
    told = []
    path = tmp_path / "visits.csv"
    table_of(*records(2)[:4]).to_csv(path, index=False)
    with watching_rows(told.append):
        read_declared(path, POLICY)
        assert told == []
        read_declared(path, Policy(FEATURES))  # a row each: their number is public
    assert told


def test_answers_are_about_the_rows_that_are_used():
    generator = np.random.default_rng(3)
    units = [
        [CORNERS[generator.integers(12)] for _ in range(generator.integers(1, 5))]
        for _ in range(3_000)
    ]
    table = table_of(*units)
    used = table.groupby("patient").head(MAX_ROWS)
    asks = ["count()", "mean(dose)", "count() by ward where night", "median(dose)"]
    result = answer_queries(
        table, POLICY, asks, epsilon=4.0, failure_probability=1e-9, random_state=1
    )
    count, mean, wards, median = result.answers
    assert abs(count.value - len(used)) <= count.radius
    assert abs(mean.value - used.dose.mean()) <= mean.radius
    exact = used[used.night].groupby("ward").size()
    error = np.abs(np.array(wards.values) - exact.to_numpy())
    assert np.all(error <= np.array(wards.radii))
    assert 0.0 <= median.value <= 8.0
    assert "the unit of protection is all rows of one 'patient'" in " ".join(
        result.certificate.assumptions
    )
    assert result.certificate.verify(POLICY)


def test_a_longer_record_costs_more():
    short, long = (
        plan_of("count() by ward", policy=Policy(FEATURES, unit="u", max_rows=k)).noise
        for k in (1, 5)
    )
    # one row: a change of ward moves two cells; five: each of them does
    assert float(long.scales[0]) == pytest.approx(5 * float(short.scales[0]), rel=1e-3)


def test_what_speaks_of_single_rows_refuses_in_words():
    message = "protects all rows of one 'patient' together"
    labeled = Policy(
        FEATURES, Label("sick", BooleanDomain(), 0.0), unit="patient", max_rows=2
    )
    table = table_of([CORNERS[0]], [CORNERS[1]])
    with pytest.raises(PolicyError, match=message):
        PolicyEncoder(POLICY).transform(table)
    with pytest.raises(PolicyError, match=message):
        PolicyEncoder(POLICY).codes(table)
    with pytest.raises(PolicyError, match=message):
        LogisticRegression(labeled, epsilon=1.0, delta=1e-6).plan(100)
    with pytest.raises(PolicyError, match=message):
        LogisticRegression(labeled, epsilon=1.0, delta=1e-6).fit(
            table.assign(sick=True), [True, False]
        )
    from corrdp import Synthesizer, estimate_leakage

    with pytest.raises(PolicyError, match=message):
        Synthesizer(POLICY, epsilon=1.0, delta=1e-6).fit(table)
    with pytest.raises(PolicyError, match=message):
        estimate_leakage(table, POLICY, source="private", epsilon=1.0, delta=1e-6)
    with pytest.raises(CorrDPError, match="cannot be asked of a policy with a unit"):
        plan_of("covariance(dose, night)")
    with pytest.raises(PolicyError, match="numpy array"):
        answer_queries(np.zeros((3, 3)), POLICY, ["count()"], epsilon=1.0)
    table.loc[0, "patient"] = None
    with pytest.raises(PolicyError, match="every row must say whose"):
        answer_queries(table, POLICY, ["count()"], epsilon=1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "patient"}, "declared together"),
        ({"max_rows": 3}, "declared together"),
        ({"unit": "ward", "max_rows": 3}, "as a feature or the target as well"),
        ({"unit": "patient", "max_rows": 0}, "max_rows must be a whole number"),
        ({"unit": "patient", "max_rows": 1.5}, "max_rows must be a whole number"),
        ({"unit": "", "max_rows": 1}, "unit must be a non-empty text"),
    ],
)
def test_units_that_say_nothing_are_refused(options, message):
    with pytest.raises(PolicyError, match=message):
        Policy(FEATURES, **options)


@pytest.mark.parametrize("nobody", [None, float("nan"), "", "NA", "nan"])
def test_every_row_says_whose_it_is(nobody):
    """Also where whose it is, is a number: a frame has NaN there, which is no name."""
    table = pd.DataFrame(
        {"dose": [1.0] * 3, "ward": ["a"] * 3, "night": [True] * 3}
        | {"patient": [1, nobody, 2]}
    )
    with pytest.raises(PolicyError, match="every row must say whose"):
        answer_queries(table, POLICY, ["count()"], epsilon=1.0)


def test_a_unit_needs_a_class_that_protects_its_rows():
    with pytest.raises(PolicyError, match="without a sensitive feature"):
        Policy(FEATURES[1:], unit="patient", max_rows=2)


def test_policies_without_a_unit_are_written_as_before():
    plain = Policy(FEATURES)
    assert "unit" not in plain.to_toml()
    assert "max_rows" not in plain.to_toml()
    assert plain.fingerprint() != POLICY.fingerprint()
    assert Policy.from_toml(POLICY.to_toml()) == POLICY
    assert Policy.from_dict(POLICY.to_dict()).max_rows == MAX_ROWS
    assert (
        plain.fingerprint()
        == "cc716ed8f00751d8a0215b8e67f94c629a511b860907a8b02d1cfbdee71f1010"
    )


def test_the_command_line_reads_units(tmp_path):
    table_of(*([CORNERS[k % 12]] * (1 + k % 4) for k in range(60))).to_csv(
        tmp_path / "visits.csv", index=False
    )
    POLICY.to_file(tmp_path / "policy.toml")
    result = run(
        *("query", "visits.csv", "--policy", "policy.toml", "--ask", "count()"),
        *("--epsilon", 5, "--seed", 1, "--json"),
        cwd=tmp_path,
    )
    assert result.code == 0, result.stderr
    (answer,) = json.loads(result.stdout)["answers"]
    assert abs(answer["value"] - 15 * (1 + 2 + 2 + 2)) <= answer["radius"]


def test_the_command_line_reads_no_cell_of_rows_that_are_not_used(tmp_path):
    """Neither to answer nor to see, before it pays, that all of them can be read."""
    kept = ["1,1,a,true", "1,2,b,true", "2,1,a,false"]
    POLICY.to_file(tmp_path / "policy.toml")
    asked = (
        "query",
        "visits.csv",
        "--policy",
        "policy.toml",
        "--ask",
        "count() by ward",
    )
    pays = ("--epsilon", 1, "--ledger", "l", "--ledger-epsilon", 3)
    for row, code in (("1,3,nowhere,true", 0), ("3,1,nowhere,true", 3)):
        lines = ["patient,dose,ward,night", *kept, row]
        (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n")
        result = run(*asked, *pays, "--accept-new-data", cwd=tmp_path)
        assert result.code == code, result.stderr
        charged = Ledger.open(tmp_path / "l").entries()
        assert sum(entry["kind"] == "charge" for entry in charged) == 1


def test_what_cannot_be_asked_of_units_says_so():
    features = (*FEATURES, Feature("age", "insensitive", NumberDomain(0, 9), 0.5))
    policy = Policy(features, unit="patient", max_rows=MAX_ROWS)
    for ask in ("correlation(dose, age)", "2 * correlation(dose, age)"):
        with pytest.raises(CorrDPError, match="correlation cannot be asked of a pol"):
            plan_queries(policy, [ask], budget=Budget(epsilon=1.0, delta=0.0), n_rows=9)


def test_check_reads_labels_and_the_unit_of_a_policy(tmp_path):
    label = Label("left", BooleanDomain(), 0.0)
    policy = Policy(FEATURES, label, unit="patient", max_rows=MAX_ROWS)
    (tmp_path / "policy.toml").write_text(policy.to_toml())
    rows = {"patient": [1, 1], "dose": [1, 2], "ward": ["a", "b"]}
    table = pd.DataFrame(rows | {"night": [True, False], "left": [True, True]})
    table.to_csv(tmp_path / "d.csv", index=False)
    done = run("check", "d.csv", "--policy", "policy.toml", cwd=tmp_path)
    assert done.code == 0, done.stderr
    assert "patient" not in done.stdout


@pytest.mark.parametrize("max_rows", [1_025, 3_000, 10**9])
def test_more_rows_of_a_unit_than_noise_can_cover_are_refused_in_words(max_rows):
    policy = Policy(FEATURES, unit="patient", max_rows=max_rows)
    with pytest.raises(PolicyError, match=f"max_rows={max_rows} rows of one unit"):
        plan_queries(
            policy, ["sum(dose)"], budget=Budget(epsilon=1.0, delta=0.0), n_rows=10
        )
