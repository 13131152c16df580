"""Synthetic tables from end to end: types, declared knowledge, saving, paying."""

import json
import re
from dataclasses import replace

import narwhals.stable.v1 as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from corrdp._json import digest
from corrdp._random import noise_generator
from corrdp.exceptions import (
    BudgetError,
    CorrDPError,
    GuaranteeVoidError,
    PolicyError,
)
from corrdp.leakage import estimate_leakage
from corrdp.ledger import Ledger
from corrdp.policy import (
    BooleanDomain,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
    Replace,
    Slot,
)
from corrdp.synthesis import Synthesizer, _synthesizer
from corrdp.synthesis._columns import TableColumns
from synthesis_examples import POLICY, patients

TOWNS = CategoryDomain(("Rome", "Bonn"), missing=Slot())


def maker(**settings):
    settings = {"epsilon": 3.0, "delta": 1e-6, "random_state": 0} | settings
    return Synthesizer(settings.pop("policy", POLICY), **settings)


@pytest.fixture(scope="module")
def fitted():
    return maker().fit(patients())


def test_rows_have_the_columns_types_and_bounds_of_the_policy(fitted):
    rows = fitted.sample(2000, random_state=1)
    assert list(rows.columns) == list(patients().columns)
    assert set(rows["illness"]) <= {"none", "flu", "other ill"}
    assert rows["age"].dropna().between(0, 100).all()
    assert rows["age"].isna().any()
    assert rows["insured"].dtype == bool
    assert set(rows["returned"]) == {"no", "yes"}


def test_the_synthetic_table_resembles_the_private_one(fitted):
    rows, truth = fitted.sample(3000, random_state=1), patients()
    for name in ("illness", "town", "returned"):
        share = rows[name].value_counts(normalize=True)
        wanted = truth[name].value_counts(normalize=True)
        assert (share - wanted).abs().max() < 0.05
    both = (rows["illness"] != "none") & (rows["returned"] == "no")
    assert both.mean() < 0.02  # illness decides


def test_types_do_not_depend_on_the_rows_that_were_drawn(fitted):
    few, many = fitted.sample(1, random_state=0), fitted.sample(500, random_state=0)
    assert dict(few.dtypes) == dict(many.dtypes)


@pytest.mark.parametrize("convert", [pl.from_pandas, pa.Table.from_pandas])
def test_rows_come_back_as_the_kind_of_table_that_went_in(convert):
    table = convert(patients(300))
    rows = maker().fit(table).sample(20, random_state=0)
    assert type(rows) is type(table)


def test_another_kind_of_table_on_demand(fitted):
    assert isinstance(fitted.sample(5, output="polars"), pl.DataFrame)
    with pytest.raises(CorrDPError, match="output"):
        fitted.sample(5, output="excel")


WRITTEN = Policy(
    (
        Feature("grade", "sensitive", NumberDomain(0.5, 4.5, 4, whole=True)),
        Feature("ill", "sensitive", BooleanDomain(digits=True)),
        Feature("age", "sensitive", NumberDomain(0, 90, 9, Slot(), whole=True)),
        Feature("code", "sensitive", CategoryDomain((10, 20))),
        Feature("rate", "sensitive", CategoryDomain((0.5, 1.5), missing=Slot())),
        Feature("mixed", "sensitive", CategoryDomain((1, 2), other=True)),
        Feature("smokes", "sensitive", BooleanDomain(Slot(), digits=True)),
    ),
    label=Label("wins", NumberDomain(0, 7, whole=True), 0.0),
)


@pytest.mark.parametrize("output", ["pandas", "polars", "pyarrow"])
def test_values_are_written_as_the_policy_declares_them(output):
    n = 60
    table = pd.DataFrame(
        {
            "grade": [1, 2, 3, 4] * 15,
            "ill": [0, 1] * 30,
            "age": [*range(20, 20 + n - 1), None],
            "code": [10, 20] * 30,
            "rate": [0.5, 1.5, None] * 20,
            "mixed": [1, 2, 3] * 20,
            "smokes": [0, 1, None] * 20,
            "wins": [0, 3, 7] * 20,
        }
    )
    policy = Policy.from_toml(WRITTEN.to_toml())
    drawn = maker(policy=policy, epsilon=5.0).fit(table).sample(500, output=output)
    rows = pa.table(drawn if output != "polars" else drawn.to_arrow())
    values = {name: set(rows[name].to_pylist()) - {None} for name in rows.column_names}
    kinds = {name: {type(v) for v in found} for name, found in values.items()}
    with_gaps = float if output == "pandas" else int
    assert kinds == {
        "grade": {int},
        "ill": {int},
        "age": {with_gaps},
        "code": {int},
        "rate": {float},
        "mixed": {str},
        "smokes": {with_gaps},
        "wins": {int},
    }
    assert values["grade"] <= {1, 2, 3, 4}
    assert values["ill"] == values["smokes"] == {0, 1}
    assert values["code"] == {10, 20}
    assert values["mixed"] <= {"1", "2", "(other)"}
    assert all(v == int(v) and 0 <= v <= 90 for v in values["age"])


@pytest.mark.parametrize("output", ["pandas", "polars", "pyarrow"])
def test_whole_numbers_that_no_table_holds_can_be_drawn_all_the_same(output):
    """A model that was paid for and of which no row can be drawn is lost."""
    features = (
        Feature("sum", "sensitive", NumberDomain(0, 2.0**63, 2, whole=True)),
        Feature("key", "sensitive", CategoryDomain((10**30, 7))),
    )
    table = pd.DataFrame({"sum": [0.0, 2.0**63] * 50, "key": [10**30, 7] * 50})
    policy = Policy(features)
    rows = maker(policy=policy, epsilon=9.0).fit(table).sample(100, output=output)
    frame = rows if output == "pandas" else rows.to_pandas()
    assert frame["sum"].dtype == np.float64
    assert set(frame["key"]) == {str(10**30), "7"}


def test_no_whole_number_lies_beyond_the_bounds():
    """Bins above the last whole number, and below the first, keep the nearest one."""
    stages = Policy((Feature("stage", "sensitive", NumberDomain(0.8, 2.2, 8)),))
    columns = TableColumns(stages, 8, {"stage": "whole"})
    codes = np.arange(8)[:, None]
    drawn = columns.values(codes, np.random.default_rng(0))["stage"]
    assert drawn == [1, 1, 2, 2, 2, 2, 2, 2]


def test_shapes_say_where_in_its_bin_a_number_lies():
    table = patients(500)
    rows = maker(shapes={"visits": "whole", "age": "lower"}).fit(table).sample(300)
    assert rows["visits"].dtype == np.int64
    assert rows["visits"].between(0, 9).all()
    assert set(rows["age"].dropna()) <= {0.0, 20.0, 40.0, 60.0, 80.0}
    with pytest.raises(CorrDPError, match="shapes"):
        maker(shapes={"age": "round"}).plan(10)
    with pytest.raises(PolicyError, match="town"):
        maker(shapes={"town": "whole"}).plan(10)


def test_a_seed_fixes_the_result_and_without_one_no_two_fits_agree():
    table = patients(400)
    same = [maker().fit(table).sample(50, random_state=3) for _ in range(2)]
    assert same[0].equals(same[1])
    free = [
        maker(random_state=None).fit(table).sample(400, random_state=3)
        for _ in range(2)
    ]
    assert not free[0].equals(free[1])


def test_without_a_seed_noise_has_none(monkeypatch):
    """Choices are drawn too, so two tables that differ do not show fresh noise."""
    seeds = []

    def recorded(random_state=None, *, purpose=""):
        seeds.append(random_state)
        return noise_generator(random_state, purpose=purpose)

    monkeypatch.setattr(_synthesizer, "noise_generator", recorded)
    maker(random_state=None).fit(patients(100))
    assert seeds == [None]


def test_declared_zeros_are_never_violated():
    knowledge = {
        "impossible": [{"illness": ["flu", "other ill"], "age": [80, 100]}],
        "determines": [
            {
                "column": "town",
                "gives": "country",
                "values": {"P": "F", "L": "F", "B": "D"},
            },
        ],
    }
    rows = (
        maker(epsilon=0.05, **knowledge).fit(patients(500)).sample(5000, random_state=0)
    )
    assert (rows["country"] == np.where(rows["town"] == "B", "D", "F")).all()
    assert not ((rows["illness"] != "none") & (rows["age"] >= 80)).any()
    # Power: without the declaration this noisy table breaks both.
    loose = maker(epsilon=0.05).fit(patients(500)).sample(5000, random_state=0)
    assert ((loose["illness"] != "none") & (loose["age"] >= 80)).any()


@pytest.mark.parametrize(
    "knowledge",
    [
        {"impossible": [{"illness": "cough", "town": "P"}]},
        {"impossible": [{"age": 80, "town": "P"}]},
        {"impossible": [{"illness": "flu"}]},
        {"impossible": [{"height": [0, 1], "town": "P"}]},
        {"determines": [{"column": "town"}]},
        {"impossible": [{"town": ["P", "L", "B"], "country": ["F", "D"]}]},
        {"impossible": [{"age": ["young", "old"], "town": "P"}]},
        {"impossible": ["age"]},
        {"determines": [{"column": "town", "gives": "country", "values": ["F"]}]},
        {"determines": [{"column": ["town"], "gives": "country", "values": {}}]},
    ],
)
def test_knowledge_that_makes_no_sense_is_refused(knowledge):
    with pytest.raises(PolicyError):
        maker(**knowledge).fit(patients(20))


@pytest.mark.parametrize(
    "knowledge",
    [
        {"impossible": [{"age": [0, 17], "town": "P"}]},  # bins are 20 wide
        {"impossible": [{"age": [40, 20], "town": "P"}]},
        {"impossible": [{"age": [0, 20], "town": []}]},
        # Without a bin to give, the town would never occur.
        {"determines": [{"column": "town", "gives": "age", "values": {"P": [1, 9]}}]},
    ],
)
def test_knowledge_that_would_be_ignored_is_refused(knowledge):
    with pytest.raises(PolicyError, match="would not be kept"):
        maker(**knowledge).fit(patients(20))


def test_a_model_that_ignored_a_rule_is_still_read(fitted, tmp_path):
    fitted.save(tmp_path)
    file = tmp_path / "model.json"
    document = json.loads(file.read_text())
    del document["digest"]
    parameters = document["content"]["parameters"]
    parameters["impossible"] = [{"age": [0, 17], "town": "P"}]
    document["digest"] = digest(document)
    file.write_text(json.dumps(document))
    assert len(Synthesizer.load(tmp_path).sample(5, random_state=0)) == 5


VALUES = {"insured": (True, False), "returned": ("yes", "no"), "country": ("F", "D")}


@pytest.mark.parametrize("selection", ["screen", "adaptive"])
@pytest.mark.parametrize(
    "impossible",
    [
        # Any two of three columns differ, and each has two values.
        [
            {one: own, two: other}
            for one, two in (
                ("insured", "returned"),
                ("returned", "country"),
                ("insured", "country"),
            )
            for own, other in zip(VALUES[one], VALUES[two], strict=True)
        ],
        # Two columns that share no clique with the rest.
        [
            {"town": "P", "country": ["F", "D"]},
            {"town": ["L", "B"], "insured": [True, False]},
        ],
    ],
)
def test_zeros_that_leave_no_row_are_refused_before_payment(
    impossible, selection, tmp_path
):
    budget = Budget(epsilon=5.0, delta=1e-4)
    ledger = Ledger.create(tmp_path / "ledger", POLICY, budget=budget)
    before = ledger.path.read_bytes()
    with pytest.raises(PolicyError, match="no possible row"):
        maker(impossible=impossible, selection=selection).fit(
            patients(50), ledger=ledger
        )
    assert ledger.path.read_bytes() == before


def test_a_boolean_is_named_as_in_the_keys_of_a_file():
    rule = {"column": "insured", "gives": "town", "values": {"true": "P"}}
    rows = maker(determines=[rule]).fit(patients(200)).sample(500, random_state=0)
    assert set(rows["town"][rows["insured"]]) == {"P"}
    assert set(rows["town"]) > {"P"}


A_PAIR = {"impossible": [{"age": [80, 100], "visits": [0, 1]}]}
A_CIRCLE = {
    "impossible": [
        {"age": [80, 100], "town": "P"},
        {"visits": [0, 1], "town": "P"},
        {"age": [80, 100], "visits": [0, 1]},
    ]
}


@pytest.mark.parametrize(
    ("knowledge", "max_cells", "named"),
    [
        (A_PAIR, 50, "'age', 'visits'"),  # 60 cells
        # Each has 60 cells or fewer, a model of the three together 180.
        (A_CIRCLE, 100, r"'visits' \(10 codes\), 'age' \(6 codes\), 'town'"),
    ],
)
def test_zeros_that_do_not_fit_are_refused_by_the_columns_to_coarsen(
    knowledge, max_cells, named, monkeypatch
):
    def counted(*_):
        raise AssertionError("rows were counted")

    monkeypatch.setattr("corrdp.synthesis._release.count_cells", counted)
    policy = replace(POLICY, features=POLICY.features[:-2])  # few codes beside them
    table = patients(20).drop(columns=["country", "insured"])
    with pytest.raises(PolicyError, match="Coarsen") as refused:
        maker(policy=policy, max_cells=max_cells, **knowledge).fit(table)
    assert re.search(named, str(refused.value))


def test_rows_given_public_columns_keep_them(fitted):
    given = pd.DataFrame({"country": ["D"] * 200 + ["F"] * 200})
    rows = fitted.sample(given=given, random_state=0)
    assert rows["country"].tolist() == given["country"].tolist()
    assert (rows["town"][:200] == "B").mean() > 0.8
    assert (rows["town"][200:] == "B").mean() < 0.2


def test_only_public_columns_may_be_given(fitted):
    with pytest.raises(PolicyError, match="'town'"):
        fitted.sample(given=pd.DataFrame({"town": ["P"]}))
    with pytest.raises(CorrDPError, match="n_rows"):
        fitted.sample(3, given=pd.DataFrame({"country": ["F"]}))


def test_a_saved_synthesizer_draws_the_same_rows(fitted, tmp_path):
    fitted.save(tmp_path / "made")
    again = Synthesizer.load(tmp_path / "made")
    drawn = [m.sample(100, random_state=5) for m in (fitted, again)]
    assert drawn[0].equals(drawn[1])
    assert again.certificate_ == fitted.certificate_
    assert again.pairs_ == fitted.pairs_
    files = {path.name for path in (tmp_path / "made").iterdir()}
    assert files == {"model.json", "policy.toml", "certificate.json"}


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("fitted",), None, "model.fitted is damaged"),
        (("fitted", "n_rows"), "many", "n_rows is damaged"),
        (("fitted", "n_rows"), -5, "n_rows must be"),
        (("fitted", "potentials"), 5, "potentials is damaged"),
        (("fitted", "potentials", 0, "values", 0), None, "is damaged"),
        (("fitted", "potentials", 0, "values"), [1.0], "are no table of"),
        (("fitted", "potentials", 0, "columns"), [], "are no table of"),
        (("parameters", "colour"), "red", "parameter 'colour'"),
        (("parameters", "impossible"), [5], "is damaged"),
        (("parameters", "bins"), [16], "bins is damaged"),
    ],
)
def test_a_damaged_model_is_refused_in_words(fitted, tmp_path, path, value, why):
    fitted.save(tmp_path)
    file = tmp_path / "model.json"
    document = json.loads(file.read_text())
    del document["digest"]
    part = document["content"]
    for name in path[:-1]:
        part = part[name]
    part[path[-1]] = value
    document["digest"] = digest(document)  # as whoever damages it might
    file.write_text(json.dumps(document))
    with pytest.raises(CorrDPError, match=why):
        Synthesizer.load(tmp_path)


def test_a_changed_file_is_refused(fitted, tmp_path):
    fitted.save(tmp_path)
    path = tmp_path / "model.json"
    document = json.loads(path.read_text())
    document["content"]["fitted"]["potentials"][0]["values"][0] += 1.0
    path.write_text(json.dumps(document))
    with pytest.raises(GuaranteeVoidError, match="changed"):
        Synthesizer.load(tmp_path)


def test_no_raw_value_is_in_a_saved_synthesizer(tmp_path):
    table = patients(300)
    table["age"] = 12.345678
    maker().fit(table).save(tmp_path)
    assert "12.345678" not in (tmp_path / "model.json").read_text()


@pytest.mark.parametrize("selection", ["screen", "adaptive"])
@pytest.mark.parametrize("n_rows", [1, 3])
def test_very_few_rows_give_a_table_all_the_same(n_rows, selection):
    made = maker(delta=1e-9, selection=selection).fit(patients(n_rows))
    assert len(made.sample(10, random_state=0)) == 10


def test_a_column_of_one_value_stays_so():
    policy = replace(
        POLICY,
        features=(*POLICY.features, Feature("one", "public", CategoryDomain(("x",)))),
    )
    rows = maker(policy=policy).fit(patients(200).assign(one="x")).sample(20)
    assert set(rows["one"]) == {"x"}


@pytest.mark.parametrize("selection", ["screen", "adaptive"])
def test_missing_slots_and_constant_columns_come_back(selection):
    """Every kind of column with a slot; one sensitive level; one value in all rows."""
    policy = Policy(
        (
            Feature("age", "sensitive", NumberDomain(0, 80, bins=4, missing=Slot())),
            Feature("only", "sensitive", CategoryDomain(("x",))),
            Feature("town", "insensitive", TOWNS, leakage=0.2),
            Feature("works", "insensitive", BooleanDomain(missing=Slot()), leakage=0.2),
            Feature("same", "insensitive", CategoryDomain(("a", "b")), leakage=0.2),
        ),
        Label("ill", BooleanDomain(), score=1.0),
    )
    n_rows = 4000
    place = np.arange(n_rows)
    table = pd.DataFrame(
        {
            "age": np.where(place % 4 == 0, np.nan, 30.0),
            "only": "x",
            "town": np.where(place % 3 == 0, None, "Rome"),
            "works": np.where(place % 5 == 0, None, place % 2 == 0),
            "same": "a",
            "ill": place % 2 == 0,
        }
    )
    made = maker(policy=policy, selection=selection).fit(table)
    rows = made.sample(n_rows, random_state=0)
    for name in ("age", "town", "works"):
        assert abs(rows[name].isna().mean() - table[name].isna().mean()) < 0.05
    assert set(rows["only"]) == {"x"}
    assert (rows["same"] == "a").mean() > 0.95
    assert len(maker(policy=policy, delta=1e-9).fit(table[:3]).sample(5)) == 5


def test_numbers_without_bins_get_some():
    features = tuple(
        replace(f, domain=replace(f.domain, bins=None)) if f.name == "visits" else f
        for f in POLICY.features
    )
    made = maker(policy=replace(POLICY, features=features), bins=4)
    assert made.plan(100).columns.sizes[2] == 4
    assert made.fit(patients(200)).sample(50)["visits"].between(0, 9).all()


def test_a_protected_label_is_protected():
    label = replace(POLICY.label, score=1.0)
    made = maker(policy=replace(POLICY, label=label)).fit(patients(300))
    assert made.certificate_.label_protected
    with pytest.raises(PolicyError, match="given"):
        made.sample(given=pd.DataFrame({"returned": ["no"]}))


def test_ordinary_noise_is_larger_than_that_of_the_policy():
    ordinary, corr = (maker(method=m).plan(3000) for m in ("standard", "corr"))
    for stage in ("singles", "pairs"):
        own, other = getattr(corr, stage), getattr(ordinary, stage)
        scale = dict(zip(other.regions, other.scales, strict=True))
        for region, mine in zip(own.regions, own.scales, strict=True):
            if region in scale:
                assert mine <= scale[region]


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"epsilon": None}, BudgetError),
        ({"method": "nonprivate"}, CorrDPError),
        ({"policy": "policy.toml"}, PolicyError),
        ({"bins": 0}, CorrDPError),
    ],
)
def test_settings_that_promise_nothing_are_refused(settings, error):
    with pytest.raises(error):
        maker(**settings).fit(patients(20))


def test_empty_tables_arrays_and_unfitted_synthesizers_are_refused():
    with pytest.raises(CorrDPError, match="no rows"):
        maker().fit(patients(0))
    with pytest.raises(CorrDPError, match="numpy"):
        maker().fit(np.zeros((3, 7)))
    with pytest.raises(CorrDPError, match="not fitted"):
        maker().sample(3)


def test_a_value_outside_the_domain_is_refused_without_showing_it():
    table = patients(50)
    table.loc[3, "town"] = "Atlantis"
    with pytest.raises(PolicyError) as caught:
        maker().fit(table)
    assert "Atlantis" not in str(caught.value)


def test_a_ledger_is_charged_before_anything_is_counted(tmp_path, monkeypatch):
    ledger = Ledger.create(
        tmp_path / "l.db", POLICY, budget=Budget(epsilon=5.0, delta=1e-5)
    )
    order = []
    charge = ledger.charge

    def charged(*args, **named):
        order.append("charge")
        return charge(*args, **named)

    def counted(*args, **named):
        order.append("count")
        raise KeyboardInterrupt

    monkeypatch.setattr(ledger, "charge", charged)
    monkeypatch.setattr("corrdp.synthesis._release.count_cells", counted)
    made = maker()
    with pytest.raises(KeyboardInterrupt):
        made.fit(patients(200), ledger=ledger)
    assert order == ["charge", "count"]
    with pytest.raises(CorrDPError, match="not fitted"):
        made.sample(1)  # interrupted in the middle: paid, nothing released


def test_a_ledger_that_cannot_pay_stops_the_fit(tmp_path):
    ledger = Ledger.create(
        tmp_path / "l.db", POLICY, budget=Budget(epsilon=1.0, delta=1e-6)
    )
    with pytest.raises(BudgetError):
        maker().fit(patients(200), ledger=ledger)


@pytest.mark.parametrize("joins", [False, True])
def test_a_ledger_wants_private_leakage_that_it_has_paid(tmp_path, joins):
    """And does not charge it again, nor refuse a policy whose levels it joined."""
    rows = patients(3000)
    rows["town"] = np.where(rows.index < 6, "B", np.where(rows.town == "B", "P", "L"))
    leakage = estimate_leakage(
        rows, POLICY, epsilon=3.0, delta=1e-6, join_levels=joins, random_state=0
    )
    assert bool(leakage.joined) is joins
    ones = dict.fromkeys(POLICY.insensitive, 1.0)
    ledger = Ledger.create(
        tmp_path / "l.db",
        POLICY,
        budget=Budget(epsilon=50.0, delta=1e-5),
        leakage=ones,
    )
    made = maker(epsilon=6.0, leakage=leakage)
    with pytest.raises(GuaranteeVoidError, match="has not paid for the leakage table"):
        made.fit(rows, ledger=ledger)
    receipt = ledger.charge(leakage.spent, policy=POLICY, purpose="leakage")
    ledger.record_release(receipt, leakage.digest)
    made.fit(rows, ledger=ledger)
    last = ledger.entries()[-1]["price"]["classes"][0]
    owed = {str(e.to_json()) for e in leakage.spent[last["name"]]}
    assert not owed & {str(event) for event in last["events"]}
    asked = {"epsilon": 0.5, "delta": 1e-6, "ledger": ledger}
    assert made.quality(rows, [("town",)], **asked).receipt is not None
    made.save(tmp_path / "made")
    with pytest.raises(GuaranteeVoidError, match="by which release"):
        Synthesizer.load(tmp_path / "made").quality(rows, [("town",)], **asked)


@pytest.mark.parametrize("output", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(
    "given",
    [
        pd.DataFrame({"floor": pd.array([1, None, 2], dtype="Int64")}),
        pd.DataFrame({"floor": [1.0, None, 2.0]}, index=[0, 0, 7]),
        pl.DataFrame({"floor": [1, None, 2]}),
        pa.table({"floor": pa.array([1, None, 2], pa.int8())}),
    ],
)
def test_given_gaps_among_whole_numbers_come_back_in_every_kind_of_table(given, output):
    policy = Policy(
        (
            Feature("ill", "sensitive", BooleanDomain()),
            Feature("floor", "public", NumberDomain(0, 4, 4, Slot(), whole=True)),
        )
    )
    table = pd.DataFrame({"ill": [True, False] * 20, "floor": [0, 1, 2, None] * 10})
    rows = maker(policy=policy).fit(table).sample(given=given, output=output)
    drawn = nw.from_native(rows, eager_only=True)
    assert drawn.columns == ["ill", "floor"]
    floors = [None if pd.isna(own) else own for own in drawn["floor"].to_list()]
    assert floors == [1, None, 2]


def test_given_categories_of_a_fixed_list_come_back():
    given = pl.DataFrame({"country": pl.Series(["F", "D"], dtype=pl.Enum(["D", "F"]))})
    rows = maker().fit(patients(200)).sample(given=given, output="polars")
    assert rows["country"].to_list() == ["F", "D"]


@pytest.mark.parametrize("kind", [np.int64, np.float32])
def test_an_interval_may_be_of_numbers_of_numpy(kind):
    rule = {"age": [kind(80), kind(100)], "town": "P"}
    rows = maker(impossible=[rule]).fit(patients(200)).sample(500, random_state=0)
    assert not ((rows["town"] == "P") & (rows["age"] >= 80)).any()


def test_texts_are_of_one_type_whether_or_not_all_of_them_are_gaps():
    policy = Policy((Feature("town", "sensitive", TOWNS),))
    table = pd.DataFrame({"town": ["Rome", None] * 30})
    made = maker(policy=policy).fit(table)
    drawn = [made.sample(1, random_state=seed)["town"] for seed in range(12)]
    assert {column.isna().all() for column in drawn} == {True, False}
    assert len({str(column.dtype) for column in drawn}) == 1


@pytest.mark.parametrize("output", ["pandas", "polars", "pyarrow"])
@pytest.mark.parametrize(
    "cells", [np.array(["F", 7, "D"], dtype=object), np.array([True, "no"], object)]
)
def test_given_cells_of_several_types_are_kept_or_refused_without_their_values(
    output, cells
):
    policy = replace(
        POLICY,
        features=(
            *POLICY.features[:4],
            Feature(
                "country", "public", CategoryDomain(("F", "D"), unknown=Replace("F"))
            ),
        ),
    )
    made = maker(policy=policy).fit(patients(200).drop(columns="insured"))
    for given in (
        pd.DataFrame({"country": cells}),
        pl.DataFrame({"country": pl.Series(cells.tolist(), dtype=pl.Object)}),
    ):
        if given.__class__.__module__.partition(".")[0] == output:
            rows = nw.from_native(made.sample(given=given, output=output))
            assert rows["country"].to_list() == cells.tolist()
            continue
        with pytest.raises(CorrDPError, match="several types") as refused:
            made.sample(given=given, output=output)
        assert not any(repr(cell) in str(refused.value) for cell in cells)


def test_given_objects_of_one_type_are_values_in_another_kind_of_table():
    """Polars hands on objects as the places where they lie."""
    given = pl.DataFrame({"country": pl.Series(["F", "D"], dtype=pl.Object)})
    made = maker().fit(patients(200))
    for output in ("pandas", "pyarrow"):
        rows = nw.from_native(made.sample(given=given, output=output))
        assert rows["country"].to_list() == ["F", "D"]


@pytest.mark.parametrize(
    "given", [{"country": ["F"]}, [1], 5, np.array([["F"]]), pl.LazyFrame({"a": [1]})]
)
def test_what_is_no_table_is_refused(given, fitted):
    with pytest.raises(CorrDPError, match="Pass a pandas"):
        fitted.sample(given=given)
    with pytest.raises(CorrDPError, match="Pass a pandas"):
        maker().fit(given)


def test_settings_that_are_numbers_of_numpy_are_saved(tmp_path):
    """What was paid for can be kept: settings are plain before the payment."""
    made = maker(
        epsilon=np.float32(1.0),
        bins=np.int64(8),
        max_cells=np.int32(5000),
        random_state=np.int64(3),
        impossible=[{"illness": "flu", "age": (-np.inf, np.float32(20))}],
        determines=[
            {"column": "insured", "gives": "town", "values": {np.True_: "P"}},
        ],
    ).fit(patients(200))
    made.bins = 4  # a setting of the next fit, not of this one
    made.save(tmp_path)
    again = Synthesizer.load(tmp_path)
    assert again.bins == 8
    one, other = (m.sample(50, random_state=0) for m in (made, again))
    assert one.equals(other)
    assert not ((one["illness"] == "flu") & (one["age"] < 20)).any()


@pytest.mark.parametrize(
    "settings",
    [
        {"random_state": [1, 2]},
        {"random_state": True},
        {"impossible": iter([{"illness": "flu", "town": "P"}])},
        {"impossible": {"illness": "flu"}},
        {"determines": 5},
        {"determines": [{"column": "age", "gives": "town", "values": {(0, 20): "P"}}]},
        {"shapes": ["age"]},
    ],
)
def test_settings_that_no_file_holds_are_refused_before_payment(settings, monkeypatch):
    monkeypatch.setattr(Synthesizer, "_pay", lambda *_: pytest.fail("paid"))
    with pytest.raises(CorrDPError, match=r"must be|maps|has column"):
        maker(**settings).fit(patients(50), ledger=object())


@pytest.mark.parametrize("name", ["epsilon", "delta"])
@pytest.mark.parametrize("number", [np.inf, np.float32("inf"), np.nan])
def test_a_budget_that_is_not_finite_is_refused_as_it_was_given(name, number):
    """An infinite end of an interval has a meaning; an infinite budget has none."""
    with pytest.raises(BudgetError, match="finite") as refused:
        maker(**{name: number}).plan(100)
    assert "e+308" not in str(refused.value)


@pytest.mark.parametrize("seed", [-1, 1.5, "seed"])
def test_seeds_of_drawing_are_refused_in_words(seed, fitted):
    with pytest.raises(CorrDPError, match="random_state"):
        fitted.sample(3, random_state=seed)
