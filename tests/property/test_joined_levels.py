"""Joining maps codes to codes: what a cell is read as, no joined policy changes."""

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from corrdp.exceptions import PolicyError
from corrdp.leakage import joined_fields, joined_policy
from corrdp.leakage._joining import _thinnest_joined
from corrdp.policy import (
    CategoryDomain,
    Feature,
    Policy,
    PolicyEncoder,
    Refuse,
    Replace,
    Slot,
)

# Texts that a second reading could take for something else: spellings of one number,
# words for missing values, names of groups and of joined levels.
TEXTS = ("1", "01", "1.0", "2", "NA", "null", "", "a", "b", "G", "2 levels joined")
CELLS = [*TEXTS, "zz", "3 levels joined", "(other)", None, float("nan"), 1, 2.0, True]


@st.composite
def domains(draw):
    categories = draw(
        st.lists(st.sampled_from(TEXTS[:-2]), min_size=3, max_size=8, unique=True)
    )
    groups = {}
    if draw(st.booleans()):
        groups = {draw(st.sampled_from(["G", categories[0] or "G"])): categories[:2]}
    other = draw(st.booleans())
    unknown = Refuse()
    if not other and draw(st.booleans()):
        unknown = Replace(draw(st.sampled_from(categories)))
    missing = draw(st.sampled_from([Refuse(), Slot(), Replace(categories[-1])]))
    return CategoryDomain(
        tuple(categories),
        other=other,
        missing=missing,
        unknown=unknown,
        groups=tuple(groups.items()),
    )


def code_of(domain, cell):
    """Return the code of a cell, None if it is refused."""
    policy = Policy((Feature("u", "sensitive", domain),))
    column = np.empty(1, dtype=object)
    column[0] = cell
    try:
        return int(PolicyEncoder(policy).codes(pd.DataFrame({"u": column}))[0, 0])
    except PolicyError:
        return None


@given(domains(), st.data())
def test_a_joined_code_is_the_group_of_the_declared_code(domain, data):
    feature = Feature("u", "insensitive", domain)
    n_codes = PolicyEncoder(Policy((feature,))).n_codes["u"]
    order = data.draw(st.permutations(range(n_codes)))
    for groups in _thinnest_joined(domain, np.array(order, dtype=float)):
        fields = joined_fields(domain, groups, np.ones(n_codes))
        policy = joined_policy(Policy((feature,)), {"u": fields})
        joined = policy.feature("u").domain
        place = {code: at for at, group in enumerate(groups) for code in group}
        assert PolicyEncoder(policy).n_codes["u"] == len(groups)
        for cell in CELLS:
            declared = code_of(domain, cell)
            if declared is None:  # the estimate would have refused the table
                continue
            assert code_of(joined, cell) == place[declared]
        assert Policy.from_dict(policy.to_dict()) == policy
        texts = [code_of(joined, text) for text in joined.written]
        assert texts == list(range(len(joined.levels)))
