"""A private leakage release, recomputed from its draws and from the printed formula.

`bound` is Theorem 2 of docs/theory/leakage.md, written from the page and not from the
code: pair by pair, no arrays shared with the library.
"""

import math
from functools import lru_cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import chi2, norm

from corrdp._random import noise_generator
from corrdp.leakage import estimate_leakage, noisy_total_variation_upper
from corrdp.mechanisms.noise import discrete_gaussian, grid_scale
from corrdp.policy import CategoryDomain, Feature, NumberDomain, Policy
from leakage_models import policy_of, table_of

STEP = 2.0**-18
ROUNDING = 2.0**-10
RANDOM = np.random.default_rng(61)


def corrected(sizes, levels, *, size_sigma, beta, n_rows):
    """Return the sizes of the groups and their errors, N~ and e."""
    k = sum(levels)
    share = beta / 10
    if n_rows is None:
        chi = math.sqrt(chi2.isf(share / 2, k))
        lengths = [math.sqrt(m) for m in levels]
        one, moved = 1.0, list(sizes)
    else:
        chi = math.sqrt(chi2.isf(share / 2, k - 1))
        lengths = [math.sqrt(m * (k - m) / k) for m in levels]
        one = math.sqrt((k - 1) / k)
        missing = n_rows - sum(sizes)
        moved = [s + m / k * missing for s, m in zip(sizes, levels, strict=True)]
    z = norm.isf(share / (4 * k))
    errors = [
        size_sigma * min(length * chi, m * one * z) + 2 * m * ROUNDING
        for length, m in zip(lengths, levels, strict=True)
    ]
    return moved, errors


def cut_off(z, weight, rest):
    """Return the chance that Z > 0 and z <= rest Z' < z + weight Z, by its integral."""
    if rest == 0.0:
        return 0.0

    def density(u):
        between = tail(z / rest) - tail((z + weight * u) / rest)
        return math.exp(-u * u / 2) / math.sqrt(2 * math.pi) * between

    return quad(density, 0.0, 12.0, epsabs=1e-16, epsrel=1e-11, limit=200)[0]


def tail(x):
    return math.erfc(x / math.sqrt(2)) / 2


@lru_cache
def quantile(first, second, noise, beta):
    """Return z of Lemma 1b for weights of any length."""
    length = math.hypot(first, second, noise)
    one, two, three = first / length, second / length, noise / length

    def excess(z):
        added = cut_off(z, one, math.hypot(two, three))
        added += cut_off(z, two, math.hypot(one, three))
        return tail(z) + added + cut_off(z, min(one, two), three) / 2 - beta

    return brentq(excess, 1e-6, 12.0, xtol=1e-13)


def deviation(sizes, errors, variance, beta):
    """Return Delta of Theorem 2 for the two groups."""
    single = [(n + e) / n**2 for n, e in zip(sizes, errors, strict=True)]
    whole = variance + sum(single)
    z = quantile(*map(math.sqrt, single), math.sqrt(variance), beta)
    tails = z * math.sqrt(whole) + sum(2 / n for n in sizes)
    return min(math.sqrt(2 * math.log(1 / beta) * whole), tails) / 2


def bound(
    cells,
    sizes,
    first,
    second,
    *,
    sigma,
    size_sigma,
    beta,
    levels=None,
    n_rows=None,
    shares=None,
):
    """Return U_FG."""
    pair = (first, second)
    n_cells = len(cells[first])
    levels = [1] * len(sizes) if levels is None else levels
    moved, errors = corrected(
        sizes, levels, size_sigma=size_sigma, beta=beta, n_rows=n_rows
    )
    if any(moved[j] <= errors[j] for j in pair):
        return 1.0
    r = {j: [n / moved[j] for n in cells[j]] for j in pair}
    v = sigma**2 * sum(1 / moved[j] ** 2 for j in pair)
    own = [moved[j] for j in pair], [errors[j] for j in pair]
    of_sizes = sum(errors[j] / (2 * moved[j]) for j in pair)
    absolute = of_sizes
    for i, (x, y) in enumerate(zip(r[first], r[second], strict=True)):
        small = shares is not None and shares[i] < math.sqrt(v) / 2
        absolute += (x + y) / 2 if small else abs(x - y) / 2
    absolute += deviation(*own, n_cells * v, 0.8 * beta)
    absolute += sum(n_cells * ROUNDING / (2 * moved[j]) for j in pair)
    t = math.log(20 / beta)
    length = math.dist(r[first], r[second])
    length += sum(math.sqrt(n_cells) * ROUNDING / moved[j] for j in pair)
    a = n_cells - 4 * t
    inner = max(0.0, 8 * t * length**2 * v - 4 * t * a * v**2)
    center = math.sqrt(max(0.0, length**2 - a * v + math.sqrt(inner)))
    squares = math.sqrt(n_cells) * center / 2 + of_sizes
    squares += deviation(*own, 0.0, beta / 20)
    return min(1.0, absolute, squares)


@pytest.mark.parametrize("n_cells", [2, 7, 400])
@pytest.mark.parametrize(("sigma", "size_sigma"), [(3.0, 1.5), (12.0, 40.0)])
@pytest.mark.parametrize("beta", [1e-3, 0.2])
@pytest.mark.parametrize("joined", [False, True])
def test_the_bound_is_the_printed_formula(n_cells, sigma, size_sigma, beta, joined):
    sizes = np.array([90.0, 2_000.0, 15_000.0, 40_000.0])
    shares = RANDOM.dirichlet(np.full(n_cells, 0.5), size=4)
    cells = sizes[:, None] * shares + sigma * RANDOM.standard_normal((4, n_cells))
    known = {"levels": [1, 1, 3, 2], "n_rows": 57_200, "shares": shares[3]}
    options = known if joined else {}
    names = {"levels": "n_levels", "n_rows": "n_rows", "shares": "cell_shares"}
    found = noisy_total_variation_upper(
        cells,
        sizes,
        noise_scale=sigma,
        size_noise_scale=size_sigma,
        failure_probability=beta,
        **{names[name]: value for name, value in options.items()},
    )
    expected = [
        [
            bound(
                cells,
                sizes,
                j,
                k,
                sigma=sigma,
                size_sigma=size_sigma,
                beta=beta,
                **options,
            )
            for k in range(4)
        ]
        for j in range(4)
    ]
    assert np.min(expected) < 1.0
    np.testing.assert_allclose(found.uppers, expected, rtol=1e-9)


def test_small_cells_and_squares_both_have_a_say():
    """Each of the two bounds is the smaller one somewhere in the cases above."""
    sizes = np.array([15_000.0, 40_000.0])
    options = {"sigma": 12.0, "size_sigma": 5.0, "beta": 1e-3}
    flat = sizes[:, None] * np.full((2, 400), 1 / 400)
    noise = 12.0 * RANDOM.standard_normal(flat.shape)
    plain = bound(flat + noise, sizes, 0, 1, **options)
    small = bound(flat + noise, sizes, 0, 1, **options, shares=np.zeros(400))
    empty = np.zeros((2, 400))
    empty[:, 0] = sizes
    with_cells = bound(empty + noise, sizes, 0, 1, **options, shares=empty[0])
    without = bound(empty + noise, sizes, 0, 1, **options)
    assert plain <= small  # squares know flat tables, sums of small cells do not
    assert with_cells < without - 0.05


JOINT = RANDOM.dirichlet(np.full(24, 4.0)).reshape(3, 2, 4)
NAMES = ("s", "u", "v")
EPSILON, DELTA, BETA = 0.8, 1e-6, 0.02


def replayed(frame, leakage, seed, groups):
    """Yield name, cells, sizes, scales of a release, drawn again from its seed."""
    (component,) = leakage.components
    planned = dict(
        zip(
            [group.name for group in component.plan.table.groups],
            component.plan.noise_scale,
            strict=True,
        )
    )
    generator = noise_generator(seed, purpose="leakage")

    def noisy(counts, name):
        scale = float(planned[name]) / STEP
        scale = grid_scale(math.hypot(scale * (1 + 1e-12), 16) * (1 + 1e-15))
        noise = discrete_gaussian(scale, size=counts.size, generator=generator)
        steps = counts.ravel() * 2**18 + noise
        part = math.sqrt(float(scale) ** 2 - 256) * STEP
        return (steps * STEP).reshape(counts.shape), part

    tables = {
        name: np.array(
            [
                [((frame[name] == value) & (frame.s == cell)).sum() for cell in cells]
                for cells in [sorted(frame.s.unique())]
                for value in sorted(frame[name].unique())
            ]
        )
        for name in groups
    }
    sizes = {n: noisy(t.sum(axis=1), f"{n}: row sizes") for n, t in tables.items()}
    for name, table in tables.items():
        together = np.array([table[list(g)].sum(axis=0) for g in groups[name]])
        cells, sigma = noisy(together, name)
        own, size_sigma = sizes[name]
        own = [sum(own[j] for j in g) for g in groups[name]]
        yield name, cells, own, sigma, size_sigma


def expected_uppers(frame, leakage, seed, groups, beta):
    drawn = list(replayed(frame, leakage, seed, groups))
    uppers = {}
    for name, cells, sizes, sigma, size_sigma in drawn:
        others = [
            (c.sum(axis=0) / c.sum(), 1 / (len(c) * s**2))
            for other, c, _, s, _ in drawn
            if other != name
        ]
        total = sum(weight for _, weight in others)
        shares = sum(share * weight for share, weight in others) / total
        uppers[name] = max(
            bound(
                cells,
                sizes,
                j,
                k,
                sigma=sigma,
                size_sigma=size_sigma,
                beta=beta,
                levels=[len(g) for g in groups[name]],
                n_rows=len(frame),
                shares=shares,
            )
            for j in range(len(sizes))
            for k in range(j)
        )
    return uppers


@pytest.mark.parametrize("seed", [0, 1])
def test_a_release_is_its_draws_and_the_formula_and_nothing_else(seed):
    """Replay: noise of the stated scale, new for every cell; beta over features."""
    policy = policy_of(JOINT, NAMES, ("s",))
    frame = table_of(JOINT, NAMES, 60_000, np.random.default_rng(62))
    leakage = estimate_leakage(
        frame,
        policy,
        epsilon=EPSILON,
        delta=DELTA,
        failure_probability=BETA,
        join_levels=False,
        random_state=seed,
    )
    groups = {"u": [(0,), (1,)], "v": [(0,), (1,), (2,), (3,)]}
    expected = expected_uppers(frame, leakage, seed, groups, BETA / 2)
    for name, upper in expected.items():
        assert 0.0 < upper < 1.0
        assert leakage.features[name].upper == pytest.approx(upper, rel=1e-9)


THIN = np.array([0.004, 0.006, 0.99]), np.array([0.6, 0.38, 0.01, 0.01])


def test_joined_levels_are_counted_with_the_noise_of_one():
    """Thin categories of u and thin bins of v: cells of groups, sizes of levels."""
    generator = np.random.default_rng(63)
    n_rows, seed = 40_000, 3
    frame = table_of(
        np.einsum("u,v,s->suv", *THIN, [0.5, 0.3, 0.2]), NAMES, n_rows, generator
    )
    frame["v"] = frame.v.str[1:].astype(float)
    policy = Policy(
        (
            Feature("s", "sensitive", CategoryDomain(("v0", "v1", "v2"))),
            Feature("u", "insensitive", CategoryDomain(("v0", "v1", "v2"))),
            Feature("v", "insensitive", NumberDomain(-0.5, 3.5, bins=4)),
        )
    )
    leakage = estimate_leakage(
        frame, policy, epsilon=0.3, delta=DELTA, random_state=seed
    )
    assert leakage.joined["u"] == {"joined": ["v0", "v1"]}
    ((first, last, value),) = leakage.joined["v"]["joined"]
    assert (first, last) == (2, 3)
    assert 2.3 < value < 2.7
    groups = {"u": [(0, 1), (2,)], "v": [(0,), (1,), (2, 3)]}
    expected = expected_uppers(frame, leakage, seed, groups, 1e-3 / 2)
    for name, upper in expected.items():
        assert 0.0 < upper < 0.9
        assert leakage.features[name].upper == pytest.approx(upper, rel=1e-9)
