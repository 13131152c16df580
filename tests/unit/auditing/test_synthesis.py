"""Audits of synthetic tables, through the code that releases them."""

from dataclasses import replace

import numpy as np
import pytest

from command_runner import run
from corrdp.auditing import audit
from corrdp.auditing._challenge import Deadline
from corrdp.auditing.targets import synthesizer_challenges
from corrdp.policy import CategoryDomain, Feature, Label
from corrdp.synthesis import Synthesizer, _adaptive
from corrdp.synthesis import _estimation as estimation
from synthesis_examples import POLICY

SMALL = replace(
    POLICY,
    features=tuple(f for f in POLICY.features if f.name in ("illness", "town")),
    label=Label("returned", CategoryDomain(("no", "yes")), 0.0),
)
BUDGET = {"epsilon": 1.0, "delta": 1e-6}


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """Intermediate models are drawn from less often: post-processing, but slow."""
    monkeypatch.setattr(_adaptive, "LEAST_SAMPLE", 200)


@pytest.mark.parametrize(("selection", "n_runs"), [("screen", 100), ("adaptive", 40)])
def test_sound_releases_are_consistent(selection, n_runs):
    maker = Synthesizer(SMALL, selection=selection, **BUDGET)
    report = audit(maker, n_rows=20, n_runs=n_runs, random_state=0)
    assert report.passed
    assert {result.class_name for result in report.results} >= {
        "sensitive",
        "insensitive:town",
    }


@pytest.mark.parametrize("part", [1.0, 0.3])
def test_too_little_noise_is_caught(monkeypatch, part):
    drawn = estimation.discrete_gaussian

    def less(scale, *, size, generator):
        return np.rint(part * drawn(scale, size=size, generator=generator)).astype(int)

    monkeypatch.setattr(estimation, "discrete_gaussian", less)
    maker = Synthesizer(SMALL, epsilon=2.0, delta=1e-6, selection="screen")
    report = audit(maker, n_rows=20, n_runs=1000, random_state=0)
    assert report.passed == (part == 1.0)


def test_wide_tables_take_fewer_runs():
    """Noise is drawn for every cell: 14 columns would take hours at 4,000 runs."""
    names = [f"c{number}" for number in range(13)]
    wide = replace(
        SMALL,
        features=tuple(
            Feature(name, "sensitive", CategoryDomain(tuple("abcdefgh")))
            for name in names
        ),
    )
    runs = {
        columns: synthesizer_challenges(Synthesizer(policy, **BUDGET), n_rows=20_000)[
            0
        ].n_runs
        for columns, policy in ((3, SMALL), (14, wide))
    }
    assert runs[3] == 4000
    assert 500 <= runs[14] <= 1000
    adaptive = Synthesizer(SMALL, selection="adaptive", **BUDGET)
    challenges = synthesizer_challenges(adaptive, n_rows=20)
    found = {(one.target, one.n_runs, one.is_slow) for one in challenges}
    assert found == {("first tables", 4000, False), ("synthetic table", 200, True)}


@pytest.mark.parametrize("part", [1.0, 0.3])
def test_first_tables_of_an_adaptive_one_are_attacked_by_themselves(monkeypatch, part):
    """Of runs that fit a model there are too few to tell a third of the noise."""
    drawn = estimation.discrete_gaussian

    def less(scale, *, size, generator):
        return np.rint(part * drawn(scale, size=size, generator=generator)).astype(int)

    monkeypatch.setattr(estimation, "discrete_gaussian", less)
    maker = Synthesizer(SMALL, epsilon=4.0, delta=1e-6, selection="adaptive")
    challenges = synthesizer_challenges(maker, n_rows=20)
    first = [one for one in challenges if one.target == "first tables"]
    report = audit(first, n_runs=2000, random_state=0)
    assert report.passed == (part == 1.0)


def test_a_synthesizer_is_audited_for_minutes_unless_told_otherwise(monkeypatch):
    limits = []

    def deadline(seconds=None):
        limits.append(seconds)
        return Deadline(seconds)

    monkeypatch.setattr("corrdp.auditing._audit.Deadline", deadline)
    maker = Synthesizer(SMALL, selection="screen", **BUDGET)
    audit(maker, n_rows=20, n_runs=40, random_state=0)
    audit(maker, n_rows=20, n_runs=40, random_state=0, time_limit=60.0)
    assert limits == [300.0, 60.0]


def test_an_adaptive_table_looks_at_the_clock_every_few_runs(stepping_clock):
    """A run fits a model: two hundred of them would take minutes per class."""
    maker = Synthesizer(SMALL, selection="adaptive", **BUDGET)
    report = audit(maker, n_rows=20, random_state=0, time_limit=0.3)
    assert "runs" in report.cut
    slow = [one for one in report.results if one.target == "synthetic table"]
    assert all(40 <= result.n_runs < 200 for result in slow)


def test_a_saved_table_is_audited_by_the_command(tmp_path):
    table = {
        "illness": ["none", "flu"] * 50,
        "town": ["P", "L"] * 50,
        "returned": ["no", "yes"] * 50,
    }
    pandas = pytest.importorskip("pandas")
    maker = Synthesizer(SMALL, selection="screen", random_state=0, **BUDGET)
    maker.fit(pandas.DataFrame(table))
    maker.save(tmp_path / "made")
    done = run("audit", tmp_path / "made", "--rows", 20, "--time-limit", 4, "--seed", 0)
    assert done.code == 0
    assert "synthetic table" in done.stdout
