"""Bounds that are drawn and paid for, so that a draft needs no confirmation of them."""

import json
import tomllib
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from command_runner import run
from corrdp.exceptions import PolicyError
from corrdp.ledger import Ledger
from corrdp.policy import (
    DRAFT_BINS,
    Budget,
    CategoryDomain,
    Feature,
    Label,
    NumberDomain,
    Policy,
)
from corrdp.queries import (
    answer_plan,
    bounds_from,
    plan_bounds,
    provisional_policy,
)
from corrdp.queries._bounds import GRID

POLICY = Policy(
    (
        Feature("income", "sensitive", NumberDomain(0, 1)),
        Feature("height", "insensitive", NumberDomain(0, 1), leakage=0.1),
        Feature("ward", "insensitive", CategoryDomain(("a",)), leakage=0.1),
    ),
    Label("cost", NumberDomain(0, 1), 1.0),
)
NAMES = ("income", "height", "cost")


def planned(n_rows=1000, epsilon=1.0, policy=POLICY):
    return plan_bounds(
        provisional_policy(policy),
        NAMES,
        budget=Budget(epsilon=epsilon, delta=0.0),
        n_rows=n_rows,
    )


def table_of(**columns):
    return pa.table(
        {name: [str(v) for v in values] for name, values in columns.items()}
    )


def drawn(table, **options):
    result = answer_plan(table, planned(table.num_rows, **options), random_state=2)
    return [bounds_from(answer) for answer in result.answers]


def test_bounds_hold_all_but_the_tails():
    generator = np.random.default_rng(0)
    table = table_of(
        income=generator.gamma(4.0, 8_000.0, 20_000).round(2),
        height=generator.normal(170, 8, 20_000).round(1),
        cost=-generator.uniform(0.02, 0.4, 20_000),
    )
    income, height, cost = drawn(table)
    assert (height.lower, height.upper) == (100.0, 200.0)
    assert (cost.lower, cost.upper) == (-0.5, -0.02) or cost.lower == -0.5
    assert income.lower <= 5_000
    assert 50_000 <= income.upper <= 200_000


def test_outliers_do_not_widen_the_bounds_and_odd_cells_are_no_numbers():
    cells = ["10"] * 5_000 + ["1e9", "-1e9", "inf", "nan", "", "ten"]
    table = pa.table({"income": cells, "height": cells, "cost": cells})
    for bounds in drawn(table):
        assert (bounds.lower, bounds.upper) == (10.0, 20.0)
    empty = pa.table({name: ["x"] * 100 for name in NAMES})
    for bounds in drawn(empty):
        assert (bounds.lower, bounds.upper) == (0.0, 1.0)
    huge = pa.table({name: ["1e12"] * 5_000 for name in NAMES})
    for bounds in drawn(huge):
        assert bounds.lower < bounds.upper


def test_one_cell_moves_two_counts_under_the_classes_that_change_it():
    plan = planned(n_rows=2)
    values = ["0", "7", "-3", "1e30", "inf", "-inf", "", "x", "0.001"]
    tables = [table_of(income=[v, "1"], height=["1", "1"], cost=["1", "1"])
              for v in values]  # fmt: skip
    found = [
        np.concatenate(
            [m.evaluate(plan.view, plan.derived.extend(t)) for m in plan.moments]
        )
        for t in tables
    ]
    largest = max(int(np.abs(a - b).sum()) for a in found for b in found)
    movement = plan.noise.movement
    assert largest == 2
    assert movement.absolute[movement.row("sensitive")].tolist() == [2, 0, 2]
    assert movement.absolute[movement.row("insensitive:height")].tolist() == [0, 2, 0]
    assert all(np.diff(GRID) > 0)


@pytest.mark.parametrize("block_leakage", [None, 0.1])
@pytest.mark.parametrize("relation", ["one_insensitive", "all_insensitive"])
def test_every_class_stands_at_distance_one(relation, block_leakage):
    policy = replace(POLICY, relation=relation, block_leakage=block_leakage)
    plan = planned(epsilon=0.7, policy=policy)
    for name, allowed in plan.noise.allowed_epsilon.items():
        assert name == "whole_record" or allowed == 0.7
    assert plan.certificate().epsilon <= 0.7


def write_table(folder, n_rows=3_000):
    generator = np.random.default_rng(1)
    lines = ["income,age,region,ill"]
    lines += [
        f"{generator.gamma(4, 8000):.2f},{generator.integers(18, 90)},"
        f"{generator.integers(0, 5)}.5,{generator.choice(['no', 'yes'])}"
        for _ in range(n_rows)
    ]
    (folder / "data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


INIT = ("init", "data.csv", "--target", "ill", "--sensitive", "income")
INIT += ("--public", "region", "--label", "public", "--out", "policy.toml")


def test_drawn_bounds_have_no_bins_that_were_read(tmp_path):
    """As many bins as a column has values would tell how many it has."""
    lines = ["income,grade,region,ill"]
    lines += [f"{i % 97}.5,{i % 4 + 1},{i % 5}.5,{'yn'[i % 2]}" for i in range(600)]
    (tmp_path / "data.csv").write_text("\n".join(lines), encoding="utf-8")
    paid = ("--epsilon", 1, "--ledger", "l.ledger", "--ledger-epsilon", 3)
    result = run(*INIT, *paid, cwd=tmp_path)
    assert result.code == 0, result.stderr
    policy = tomllib.loads((tmp_path / "policy.toml").read_text(encoding="utf-8"))
    assert policy["features"]["grade"]["bins"] == DRAFT_BINS
    assert "features.grade.bins" not in policy["unconfirmed"]
    assert "features.grade.whole" in policy["unconfirmed"]


def test_the_command_draws_pays_and_confirms(tmp_path):
    write_table(tmp_path)
    paid = ("--epsilon", 1, "--ledger", "l.ledger", "--ledger-epsilon", 3)
    result = run(*INIT, *paid, "--json", cwd=tmp_path)
    assert result.code == 0, result.stderr
    document = json.loads(result.stdout)
    # Bounds are paid for; that these are numbers, all there, was read.
    guessed = [f"features.{n}.{p}" for n in ("income", "age")
               for p in ("type", "missing_value")]  # fmt: skip
    guessed.append("features.age.whole")
    assert document["unconfirmed"] == guessed
    assert document["certificate"]["epsilon"] <= 1.0
    text = (tmp_path / "policy.toml").read_text(encoding="utf-8")
    policy = tomllib.loads(text)
    assert policy["unconfirmed"] == guessed
    for name in ("income", "age"):
        assert set(policy["features"][name]["bounds"]) <= set(GRID.tolist())
    assert "drawn with noise" in text
    spent = Ledger.open(tmp_path / "l.ledger").remaining()["sensitive"].spent
    assert spent > 0
    # Once types are confirmed the policy serves, and the same account pays.
    text = text.replace("# leakage = 1.0", "leakage = 1.0")
    (tmp_path / "policy.toml").write_text(text, encoding="utf-8")
    assert run("confirm", "policy.toml", "--all", cwd=tmp_path).code == 0
    ask = ("--ask", "mean(income)", "--epsilon", 1, "--ledger", "l.ledger")
    asked = run("query", "data.csv", "--policy", "policy.toml", *ask, cwd=tmp_path)
    assert asked.code == 0, asked.stderr
    assert Ledger.open(tmp_path / "l.ledger").remaining()["sensitive"].spent > spent
    more = run("query", "data.csv", "--policy", "policy.toml", *ask[:2], "--epsilon",
               1.5, *ask[4:], cwd=tmp_path)  # fmt: skip
    assert more.code == 3


ROWS = [f"{20 + i % 60},{i % 3},{'ab'[i % 2]},{'no' if i % 4 else 'yes'}"
        for i in range(400)]  # fmt: skip
NEIGHBORS = {"missing": ",1,a,no", "a word": "old,1,a,no"}


@pytest.mark.parametrize("changed", NEIGHBORS)
def test_what_one_record_changes_in_a_paid_draft_awaits_confirmation(tmp_path, changed):
    drafts = []
    for first in ("30,1,a,no", NEIGHBORS[changed]):
        text = "\n".join(["age,ward,ward.name,ill", first, *ROWS])
        (tmp_path / "data.csv").write_text(text, encoding="utf-8")
        result = run("init", "data.csv", "--target", "ill", "--sensitive", "ward.name",
                     "--public", "ward", "--label", "public", "--epsilon", 1,
                     "--seed", 1, "--out", "p.toml", cwd=tmp_path)  # fmt: skip
        assert result.code == 0, result.stderr
        drafts.append(tomllib.loads((tmp_path / "p.toml").read_text(encoding="utf-8")))
        (tmp_path / "p.toml").unlink()
    one, other = (draft["features"] for draft in drafts)
    differing = [n for n in one if one[n] != other.get(n)]
    assert differing == ["age"]
    for draft in drafts:
        waiting = {f.rpartition(".")[0] for f in draft["unconfirmed"]}
        assert {f"features.{n}" for n in differing} <= waiting
        assert "features.age.type" in draft["unconfirmed"]
        # a public column is not every column whose name begins like it
        assert "features.ward.name" in waiting
        assert "features.ward" not in waiting


@pytest.mark.parametrize("extra", [("--seed", 3), ("--ledger", "l.ledger")])
def test_words_without_a_budget_are_refused(tmp_path, extra):
    write_table(tmp_path, 50)
    result = run(*INIT, *extra, cwd=tmp_path)
    assert result.code == 3
    assert not (tmp_path / "policy.toml").exists()


def test_what_the_ledger_refuses_leaves_no_policy(tmp_path):
    write_table(tmp_path, 200)
    paid = ("--epsilon", 5, "--ledger", "l.ledger", "--ledger-epsilon", 3)
    result = run(*INIT, *paid, cwd=tmp_path)
    assert result.code == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.csv"]


def test_nothing_to_draw_is_refused():
    with pytest.raises(PolicyError, match="no column of numbers"):
        plan_bounds(
            provisional_policy(POLICY),
            (),
            budget=Budget(epsilon=1.0, delta=0.0),
            n_rows=10,
        )


def test_a_column_cannot_have_the_name_of_a_grid():
    features = (
        *POLICY.features,
        Feature("(grid of cost)", "public", NumberDomain(0, 1)),
    )
    clash = provisional_policy(replace(POLICY, features=features))
    with pytest.raises(PolicyError, match="Rename it"):
        plan_bounds(clash, ["cost"], budget=Budget(epsilon=1.0, delta=0.0), n_rows=10)


@pytest.mark.parametrize("as_numbers", [False, True])
def test_bounds_of_a_frame_are_those_of_the_arrow_table(as_numbers):
    generator = np.random.default_rng(1)
    columns = {name: generator.normal(50, 9, 500).round(1) for name in NAMES}
    table = table_of(**columns)
    frame = pd.DataFrame(columns) if as_numbers else table.to_pandas()
    plan = planned(table.num_rows)
    expected, found = (
        answer_plan(each, plan, random_state=2).answers for each in (table, frame)
    )
    assert [a.values for a in found] == [a.values for a in expected]
