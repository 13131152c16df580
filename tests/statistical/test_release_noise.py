"""The noise that leaves is the noise that was certified, release by release.

Each test calls the code that releases, takes the exact numbers off and compares what is
left with the law that the certificate states: Dvoretzky-Kiefer-Wolfowitz, refused with
probability 1e-9 if the code is right. Noise of half the scale fails the same test.
"""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from corrdp.leakage import estimate_leakage
from corrdp.leakage.release import _noise
from corrdp.mechanisms import answer_queries
from corrdp.mechanisms.noise import Movement, plan_vector
from corrdp.policy import (
    Budget,
    CategoryDomain,
    Feature,
    NumberDomain,
    Policy,
)
from helpers.statistics import dkw_radius, ks_distance
from leakage_models import joint_of, policy_of, table_of

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-9
SMEAR = 1e-3  # a lattice is not the line: one step over the scale, at most


def follows(draws, cdf):
    radius = dkw_radius(draws.size, false_alarm_probability=FALSE_ALARM)
    return ks_distance(draws, cdf) <= radius + SMEAR


def laplace_cdf(scale):
    def cdf(points):
        tail = 0.5 * np.exp(-np.abs(points) / scale)
        return np.where(points < 0, tail, 1.0 - tail)

    return cdf


def wide_policy(n_values=60, n_cells=40):
    def domain(n):
        return CategoryDomain(tuple(f"c{i:02d}" for i in range(n)))

    return Policy(
        (
            Feature("s", "sensitive", domain(n_cells)),
            Feature("u", "insensitive", domain(n_values), leakage=0.5),
            Feature("v", "insensitive", domain(n_values), leakage=0.5),
        )
    )


@pytest.fixture(scope="module")
def rows():
    generator = np.random.default_rng(71)
    return pd.DataFrame(
        {
            "s": [f"c{i:02d}" for i in generator.integers(0, 40, 3000)],
            "u": [f"c{i:02d}" for i in generator.integers(0, 60, 3000)],
            "v": [f"c{i:02d}" for i in generator.integers(0, 60, 3000)],
        }
    )


def recorded_release(rows, policy, monkeypatch, seed):
    """Run a release and return what left it, table by table, in order."""
    left = []
    release = _noise.noisy_leakage

    def recording(cells, sizes, words, **options):
        left.append((cells, sizes))
        return release(cells, sizes, words, **options)

    monkeypatch.setattr(_noise, "noisy_leakage", recording)
    table = estimate_leakage(
        rows, policy, epsilon=0.5, delta=1e-6, join_levels=False, random_state=seed
    )
    (component,) = table.components
    groups = [group.name for group in component.plan.table.groups]
    return left, dict(zip(groups, component.plan.noise_scale, strict=True))


def exact_table(rows, name):
    domain = [f"c{i:02d}" for i in range(60)]
    cells = [f"c{i:02d}" for i in range(40)]
    table = pd.crosstab(rows[name], rows.s).reindex(index=domain, columns=cells)
    return table.fillna(0).to_numpy()


def test_leakage_tables_have_the_noise_of_their_certificate(rows, monkeypatch):
    policy = wide_policy()
    cell_noise, size_noise, by_table = [], [], []
    for seed in range(16):
        left, scales = recorded_release(rows, policy, monkeypatch, seed)
        for name, (cells, sizes) in zip(("u", "v"), left, strict=True):
            exact = exact_table(rows, name)
            drawn = (cells - exact).ravel() / scales[name]
            cell_noise.append(drawn)
            by_table.append(drawn)
            off = sizes - exact.sum(axis=1)
            size_noise.append(off / scales[f"{name}: row sizes"])
        monkeypatch.undo()
    for draws in (np.concatenate(cell_noise), np.concatenate(size_noise)):
        assert follows(draws, norm.cdf)
        assert not follows(0.5 * draws, norm.cdf)
    # fresh for every table and every release: correlations of 2400 draws, Hoeffding's
    # inequality for the signs of products, a union over all pairs
    signs = np.sign(np.array(by_table))
    agreement = np.abs(signs @ signs.T)[np.triu_indices(len(signs), 1)]
    limit = math.sqrt(2 * 2400 * math.log(2 * agreement.size / FALSE_ALARM))
    assert agreement.max() <= limit
    assert abs(float(signs[0] @ signs[0])) > limit  # noise used twice


def test_an_unseeded_release_draws_anew():
    joint = joint_of([[0.6, 0.4], [0.3, 0.7]], [0.5, 0.5])
    policy = policy_of(joint, ("s", "u"), ("s",))
    frame = table_of(joint, ("s", "u"), 20_000, np.random.default_rng(72))
    estimates = {
        estimate_leakage(frame, policy, epsilon=0.5, delta=1e-6).features["u"].estimate
        for _ in range(5)
    }
    # six noises of a scale above 2**18 steps: a repeated value has odds below 1e-5 per
    # pair, five equal ones below 1e-20
    assert len(estimates) > 1


POLICY = Policy(
    (
        Feature("age", "sensitive", NumberDomain(0, 64, bins=32)),
        Feature("ward", "insensitive", CategoryDomain(("a", "b")), leakage=0.5),
    )
)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_answers_have_the_noise_of_their_certificate(delta):
    """A histogram of the middle of a wide table, so that nothing is clipped."""
    n_rows = 64_000
    ages = np.repeat(np.arange(32) * 2.0 + 1.0, n_rows // 32)
    table = pd.DataFrame({"age": ages, "ward": ["a", "b"] * (n_rows // 2)})
    draws, epsilon = [], 0.25
    for seed in range(150):
        result = answer_queries(
            table,
            POLICY,
            ["histogram(age)"],
            epsilon=epsilon,
            delta=delta,
            random_state=seed,
        )
        draws.append(np.array(result.answers[0].values) - n_rows / 32)
    noise = np.concatenate(draws)
    claimed = result.certificate.epsilon
    assert claimed <= epsilon
    if delta == 0.0:
        # one row moves two counts by one: scale 2 / epsilon, from the certificate
        cdf = discrete(laplace_cdf(2.0 / claimed))
    else:
        cdf = discrete(norm(scale=float(result.plan.noise.scales[0])).cdf)
    assert follows_discrete(noise, cdf)
    assert not follows_discrete(0.5 * noise, cdf)
    assert not follows_discrete(0.8 * noise, cdf)


def discrete(cdf):
    """Return the law of the same noise on whole numbers, to second order."""
    return lambda points: cdf(np.floor(points) + 0.5)


def follows_discrete(noise, cdf):
    radius = dkw_radius(noise.size, false_alarm_probability=FALSE_ALARM)
    return ks_distance(noise, cdf) <= radius + 0.005


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_vectors_have_the_noise_of_their_plan(kind):
    grid = 2.0**-10
    sensitivity = {
        "sensitive": [1.0] * 8 + [0.0] * 8,
        "insensitive:ward": [0.0] * 8 + [4.0] * 8,
        "whole_record": [1.0] * 8 + [4.0] * 8,
    }
    plan = plan_vector(
        Movement.of_coordinates(sensitivity, grid=grid),
        policy=POLICY,
        budget=Budget(epsilon=1.0, delta=1e-6 if kind == "gaussian" else 0.0),
        kind=kind,
    )
    values = np.linspace(-3.0, 3.0, 16)
    draws = np.array(
        [plan.release(values, grid=grid, random_state=s) - values for s in range(600)]
    )
    for part, scale in ((draws[:, :8], plan.scales[0]), (draws[:, 8:], plan.scales[8])):
        spread = float(scale) * grid
        cdf = laplace_cdf(spread) if kind == "laplace" else norm(scale=spread).cdf
        assert follows(part.ravel(), cdf)
        assert not follows(0.5 * part.ravel(), cdf)
    assert len(np.unique(draws[:, 0])) > 500  # fresh in every call
