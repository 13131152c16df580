"""Sampled steps at rates down to 1e-6 against dp-accounting, 200 random settings.

dp-accounting takes up to a minute for one of these, so its answers are kept in
``sampled_reference.json``; ``python tests/golden/test_sampled_reference.py`` writes it.
Each setting has its bound on two grids, the second three times as fine. Its error
falls at least in proportion to the grid, so that what it converges to is at least the
finer answer less half the difference. It cuts tails of 1e-15 off and counts them as
infinite loss, so that it answers for a delta that is smaller by as much; ours is asked
for that delta.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from corrdp.accounting import sampled_epsilon

REFERENCE = Path(__file__).with_name("sampled_reference.json")
COUNT = 200
TRUNCATED = 1e-15
QUICK = 20


def priced(row):
    noise = row["noise"]
    return sampled_epsilon(
        rate=row["rate"],
        contribution=1 / noise,
        change=2 / noise,
        n_steps=row["n_steps"],
        delta=row["delta"] - TRUNCATED,
    )


def check(row):
    found = priced(row)
    coarse, fine = row["epsilon_coarse"], row["epsilon_fine"]
    assert fine - (coarse - fine) / 2 <= found <= 1.003 * fine


def rows():
    return json.loads(REFERENCE.read_text(encoding="utf-8"))


@pytest.mark.parametrize("index", range(QUICK))
def test_dp_accounting_at_tiny_rates(index):
    check(rows()[index])


@pytest.mark.slow
@pytest.mark.parametrize("index", range(QUICK, COUNT))
def test_dp_accounting_at_tiny_rates_in_full(index):
    check(rows()[index])


def test_reference_reaches_the_smallest_rates():
    kept = rows()
    assert len(kept) == COUNT
    assert min(row["rate"] for row in kept) < 2e-6
    assert max(row["rate"] for row in kept) > 0.1


@pytest.mark.parametrize("index", [0, 1])
def test_reference_is_what_dp_accounting_says(index):
    cheapest = sorted(rows(), key=lambda row: row["n_steps"] / row["grid"])[index]
    # Its transforms round differently from version to version, in the ninth digit.
    assert oracle(cheapest, cheapest["grid"]) == pytest.approx(
        cheapest["epsilon_coarse"], rel=1e-7
    )


def test_half_the_noise_would_be_caught():
    row = rows()[0]
    with pytest.raises(AssertionError):
        check(row | {"noise": 2 * row["noise"]})


def oracle(row, grid):
    return float(
        from_gaussian_mechanism(
            row["noise"],
            value_discretization_interval=grid,
            sampling_prob=row["rate"],
            neighboring_relation=NeighboringRelation.REPLACE_ONE,
        )
        .self_compose(row["n_steps"])
        .get_epsilon_for_delta(row["delta"])
    )


def write_reference():
    """Draw settings until dp-accounting resolves enough of them to 1 %."""
    rng = np.random.default_rng(20_261_116)
    kept = []
    while len(kept) < COUNT:
        rate = 10 ** rng.uniform(-6.0, -0.5)
        noise = 10 ** rng.uniform(-0.3, 0.6)
        row = {
            "rate": float(rate),
            "noise": float(noise),
            "n_steps": int(10 ** rng.uniform(0.0, 4.7)),
            "delta": float(10 ** rng.uniform(-9.0, -4.0)),
            "grid": float(min(max(0.15 * rate / noise, 6e-5), 3e-4)),
        }
        coarse = oracle(row, row["grid"])
        if not 1e-3 < coarse < 100:
            continue
        fine = oracle(row, row["grid"] / 3)
        if 0.0 <= coarse - fine <= 0.01 * fine:
            row |= {"epsilon_coarse": coarse, "epsilon_fine": fine}
            kept.append(row)
    REFERENCE.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_reference()
