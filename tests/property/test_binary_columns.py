"""Codes that are 0 or 1 lie in one byte each, and no sum can tell."""

import math
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corrdp.policy import (
    BooleanDomain,
    CategoryDomain,
    ColumnRole,
    Feature,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
    Refuse,
    Slot,
)
from corrdp.training import prepare_rows
from corrdp.training._layout import GradientLayout, standardizing_scale

KNOTS = (0.0, 0.3, 1.0)
DOMAINS = {
    "number": lambda missing: NumberDomain(0, 1, missing=missing),
    "curve": lambda missing: NumberDomain(0, 1, knots=KNOTS, missing=missing),
    "boolean": lambda missing: BooleanDomain(missing=missing),
    "two": lambda missing: CategoryDomain(("p", "q"), missing=missing),
    "many": lambda missing: CategoryDomain(tuple("abcdefg"), missing=missing),
}
CELLS = {"two": ["p", "q"], "many": list("abcdefg"), "boolean": [True, False]}
KERNELS = {
    "logistic": (True, (), None, False),
    "squared": (True, (), 0.3, False),
    "logistic in numpy": (False, (), None, False),
    "huber in numpy": (False, (), 0.3, False),
    "multinomial": (False, (3,), None, False),
    "difference": (False, (), None, True),
}


@st.composite
def declared(draw):
    kinds = draw(st.lists(st.sampled_from(sorted(DOMAINS)), min_size=1, max_size=5))
    features = []
    for place, kind in enumerate(kinds):
        role = draw(st.sampled_from(list(ColumnRole)))
        leakage = 0.3 if role is ColumnRole.INSENSITIVE else None
        missing = draw(st.sampled_from([Refuse(), Slot()]))
        domain = DOMAINS[kind](missing)
        features.append((kind, Feature(f"{kind}{place}", role, domain, leakage)))
    return features


def rows_of(features, n_rows, rng):
    columns = []
    for kind, feature in features:
        column = np.empty(n_rows, dtype=object)
        if kind in CELLS:
            column[:] = rng.choice(np.array(CELLS[kind], dtype=object), n_rows)
        else:
            column[:] = rng.choice([0.0, 1.0, rng.random()], n_rows)
        if feature.domain.missing == Slot():
            column[rng.random(n_rows) < 0.3] = None
        columns.append(column)
    return np.column_stack(columns)


def example(features, n_rows, seed, *, scale=1.0):
    rng = np.random.default_rng(seed)
    label = Label("y", BooleanDomain(), score=0.1)
    policy = Policy(tuple(feature for _, feature in features), label)
    encoder = PolicyEncoder(policy)
    blocks = encoder.blocks_
    names = [group.name for group in GradientLayout.by_role(blocks).groups]
    clips, radii = (rng.choice([x, math.inf], len(names)) for x in (0.4, 0.9))
    layout = GradientLayout.by_role(
        blocks,
        clip_norms=dict(zip(names, clips, strict=True)),
        feature_radii=dict(zip(names, radii, strict=True)),
        influence_bounds={"intercept": 0.1},
        column_scale=scale * standardizing_scale(blocks),
        column_offset=rng.normal(0.2, 0.1, blocks[-1].stop),
    )
    return encoder.transform(rows_of(features, n_rows, rng)), layout


def without_bytes(make):
    """Return tiles in which every stored column is numbers."""
    nowhere = property(lambda self: np.zeros(self.blocks[-1].stop, dtype=bool))
    with mock.patch.object(GradientLayout, "binary_columns", nowhere):
        return make()


@pytest.mark.parametrize("kernel", KERNELS)
@settings(max_examples=12)
@given(declared(), st.sampled_from([0, 1, 7, 513, 1100]), st.integers(0, 99))
def test_sums_over_bytes_are_those_over_numbers_to_the_last_bit(
    kernel, features, n_rows, seed
):
    compiled, outputs, bound, anchored = KERNELS[kernel]
    codes, layout = example(features, n_rows, seed)
    rng = np.random.default_rng(seed)
    y = rng.integers(3 if outputs else 2, size=n_rows).astype(float)
    coef, other = rng.normal(size=(2, layout.n_columns, *outputs))

    def sums(*, drawn=None):
        prepared = prepare_rows(
            codes, y, layout, compiled=compiled, sort_rows=drawn is None
        )
        terms = {"residual_bound": bound, "anchor": other if anchored else None}
        grouped = prepared.grouped(layout)
        return prepared.rows, grouped.gradient_sum(coef, drawn=drawn, **terms)

    for drawn in (None, np.flatnonzero(rng.random(n_rows) < 0.5)):
        held, (found, n_inside) = sums(drawn=drawn)
        dense, (expected, n_expected) = without_bytes(lambda: sums(drawn=drawn))  # noqa: B023
        assert found.tobytes() == expected.tobytes()
        assert n_inside == n_expected
        assert not dense.binary.size
        assert held.binary.nbytes + held.values.nbytes <= dense.values.nbytes


@given(declared(), st.integers(0, 99))
def test_what_lies_in_bytes_is_what_the_policy_says(features, seed):
    """Also where rows happen to be 0 or 1 in a column that need not be."""
    codes, layout = example(features, 50, seed)
    binary = np.zeros(layout.n_columns, dtype=bool)
    for block in layout.blocks:
        binary[block.columns] = block.kind.value in ("one_hot", "flag")
    for rows in (codes, np.rint(np.abs(codes) / layout.column_scale)):
        prepared = prepare_rows(rows, np.zeros(50), layout)
        tiles, order = prepared.rows, prepared.order
        assert tiles.binary.dtype == np.uint8
        assert binary[order[tiles.binary_columns]].all()
        assert not binary[order[tiles.columns]].any()
        fixed = tiles.fixed[0].nonzero()[0]
        places = np.concatenate([tiles.columns, tiles.binary_columns, fixed])
        assert sorted(places) == list(range(order.size))


@given(declared(), st.integers(0, 99), st.sampled_from([1.0, 0.5, 3.0]))
def test_every_scale_comes_back_as_it_was(features, seed, scale):
    """A one-hot code that is scaled is a number, and keeps its scale."""
    codes, layout = example(features, 50, seed, scale=scale)
    prepared = prepare_rows(codes, np.zeros(50), layout, sort_rows=False)
    ((columns, _),) = prepared.rows
    scaled = np.column_stack([codes * layout.column_scale, np.ones(50)])
    expected = scaled.astype(np.float32).T[prepared.order]
    np.testing.assert_array_equal(columns, expected)
    assert scale == 1.0 or not prepared.rows.binary.size
