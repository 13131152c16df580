"""Frequent texts that are drawn: how far a row moves them, what is found, the draft."""

import itertools
import json
import tomllib

import numpy as np
import pyarrow as pa
import pytest

from command_runner import run
from corrdp.exceptions import PolicyError
from corrdp.policy import Budget, CategoryDomain, Feature, Policy
from corrdp.queries import answer_plan, plan_bounds, provisional_policy
from corrdp.queries._sketches import (
    LONGEST,
    N_BITS,
    SketchMoment,
    bits_of,
    bucket_of,
    text_of,
)

POLICY = provisional_policy(
    Policy(
        (
            Feature("job", "sensitive", CategoryDomain(("a",))),
            Feature("ward", "insensitive", CategoryDomain(("a",)), leakage=0.1),
            Feature("site", "public", CategoryDomain(("a",))),
        )
    )
)
MOMENT = SketchMoment((), column="job")
JOBS = {"clerk": 2_000, "nurse": 1_500, "night guard": 1_000, "Köchin": 900}


def planned(texts=("job",), n_rows=6_000, epsilon=2.0):
    budget = Budget(epsilon=epsilon, delta=1e-6)
    return plan_bounds(POLICY, [], budget=budget, n_rows=n_rows, texts=texts)


def rows_of(counts, n_rows=6_000):
    jobs = [job for job, times in counts.items() for _ in range(times)]
    jobs += [f"rare {number}" for number in range(n_rows - len(jobs))]
    return pa.table({"job": jobs, "ward": ["x"] * n_rows, "site": ["y"] * n_rows})


def test_one_row_moves_two_counts_for_every_bit_at_most():
    """All pairs of texts of all kinds, the missing and the long one among them."""
    texts = [*JOBS, "", None, "x" * LONGEST, "x" * (LONGEST + 1), "a", "b", "clerk "]
    sums = [MOMENT.evaluate(POLICY, pa.table({"job": [text]})) for text in texts]
    moved = [np.abs(a - b) for a, b in itertools.combinations(sums, 2)]
    absolute, squared = MOMENT.movement(POLICY, frozenset({"job"}))
    assert max(int(m.sum()) for m in moved) == absolute == 2 * N_BITS
    assert max(int((m**2).sum()) for m in moved) == squared
    assert MOMENT.movement(POLICY, frozenset({"ward"})) == (0, 0)


def test_classes_pay_at_distance_one_for_the_columns_they_change():
    noise = planned(("job", "ward")).noise
    priced = {name: noise.epsilon(name) for name in noise.movement.classes}
    assert priced["sensitive"] == pytest.approx(2.0, rel=1e-2)
    assert priced["insensitive:ward"] == pytest.approx(2.0, rel=1e-2)
    alone = planned(("job",)).noise
    assert alone.epsilon("insensitive:ward") == 0.0
    assert all(scale > 0 for scale in noise.scales)


@pytest.mark.parametrize("seed", range(3))
def test_frequent_texts_are_found_and_no_others(seed):
    """The least frequent of them has nine times the noise of one count."""
    (answer,) = answer_plan(rows_of(JOBS), planned(), random_state=seed).answers
    assert {text for (text,) in answer.cells} == set(JOBS)
    assert answer.cells[0] == ("clerk",)
    assert answer.values[0] == pytest.approx(2_000, rel=0.1)
    assert set(answer.radii) != {0.0}


def test_without_frequent_texts_nothing_is_found():
    (answer,) = answer_plan(rows_of({}), planned(), random_state=1).answers
    assert answer.cells == ()


def test_a_mixture_of_texts_is_no_text():
    for first, second in itertools.combinations(JOBS, 2):
        bits = np.maximum(bits_of(first), bits_of(second))
        assert text_of(bits) is None
    assert text_of(bits_of("nurse")) == "nurse"
    wrong = bits_of("nurse")
    wrong[3] = 1 - wrong[3]
    assert text_of(wrong) is None
    assert bits_of("ö" * LONGEST) is None
    assert len({bucket_of(f"text {n}") for n in range(2_000)}) > 200


def test_nothing_to_draw_is_refused():
    with pytest.raises(PolicyError, match="no column awaits"):
        planned(texts=())


def written(tmp_path, jobs, *extra):
    ages = np.random.default_rng(0).integers(18, 90, len(jobs))
    lines = [
        f"{age},{job},north,{age % 2}" for age, job in zip(ages, jobs, strict=True)
    ]
    text = "\n".join(["age,job,region,ill", *lines])
    (tmp_path / "data.csv").write_text(text + "\n", encoding="utf-8")
    result = run(
        *("init", "data.csv", "--sensitive", "age", "--public", "region"),
        *("--target", "ill", "--label", "public"),
        *("--epsilon", 2, "--delta", 1e-6, "--seed", 3, "--json", *extra),
        cwd=tmp_path,
    )
    assert result.code == 0, result.stderr
    policy = tomllib.loads((tmp_path / "policy.toml").read_text(encoding="utf-8"))
    return policy, json.loads(result.stdout)


def test_the_command_draws_categories_and_pays_for_them(tmp_path):
    jobs = [job for job, times in JOBS.items() for _ in range(times)]
    jobs += ["smith", "Smith"] * 10
    account = ("--ledger", "l", "--ledger-epsilon", 4, "--ledger-delta", 1e-5)
    policy, said = written(tmp_path, jobs, *account)
    job = policy["features"]["job"]
    assert job["categories"] == list(JOBS)
    assert job["other"] is True
    assert job["missing"] == "slot"
    assert "unknown" not in job
    waiting = [f for f in said["unconfirmed"] if f.startswith("features.job.")]
    assert waiting == ["features.job.type"]
    assert not any("region" in field for field in said["unconfirmed"])
    classes = said["certificate"]["classes"]
    assert 1.5 < classes["insensitive:job"]["epsilon"] <= 2.0
    shown = run("ledger", "show", "l", "--json", cwd=tmp_path)
    charges = [e for e in json.loads(shown.stdout)["entries"] if e["kind"] == "charge"]
    assert len(charges) == 1
    assert "frequent texts of job" in charges[0]["purpose"]


def test_rare_categories_still_await_confirmation(tmp_path):
    policy, said = written(tmp_path, ["a", "b", "c"] * 20)
    assert "features.job.categories" in said["unconfirmed"]
    assert policy["features"]["job"]["categories"] == ["a", "b", "c"]
