"""Audits of synthetic tables, through the code that releases them."""

from dataclasses import replace

import pytest

from command_runner import run
from corrdp.auditing import audit
from corrdp.policy import CategoryDomain, Label
from corrdp.synthesis import Synthesizer, _adaptive
from corrdp.synthesis import _release as releasing
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


def test_too_little_noise_is_caught(monkeypatch):
    drawn = releasing.discrete_gaussian

    def a_hundredth(scale, *, size, generator):
        return drawn(scale, size=size, generator=generator) // 100

    monkeypatch.setattr(releasing, "discrete_gaussian", a_hundredth)
    maker = Synthesizer(SMALL, **BUDGET)
    assert not audit(maker, n_rows=20, n_runs=100, random_state=0).passed


def test_a_saved_table_is_audited_by_the_command(tmp_path):
    table = {
        "illness": ["none", "flu"] * 50,
        "town": ["P", "L"] * 50,
        "returned": ["no", "yes"] * 50,
    }
    pandas = pytest.importorskip("pandas")
    maker = Synthesizer(SMALL, random_state=0, **BUDGET).fit(pandas.DataFrame(table))
    maker.save(tmp_path / "made")
    done = run("audit", tmp_path / "made", "--rows", 20, "--time-limit", 4, "--seed", 0)
    assert done.code == 0
    assert "synthetic table" in done.stdout
