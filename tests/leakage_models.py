"""Joint distributions whose leakage is known exactly, and draws from them."""

import numpy as np
import pandas as pd

from corrdp.policy import CategoryDomain, Feature, Policy

# P(S | u) for three values of u; total variation of every pair by hand:
# (0, 1): .2, (0, 2): .5, (1, 2): .3.
CONDITIONALS = np.array([[0.5, 0.3, 0.2], [0.3, 0.5, 0.2], [0.0, 0.5, 0.5]])
LARGEST = 0.5


def joint_of(conditionals, values):
    """Return P(S, u) from rows P(S | u) and P(u)."""
    return (np.asarray(conditionals) * np.asarray(values)[:, None]).T


def exclusive_or():
    """E9: S = U_1 xor U_2; axes S, U_1, U_2."""
    joint = np.zeros((2, 2, 2))
    for first in (0, 1):
        for second in (0, 1):
            joint[first ^ second, first, second] = 0.25
    return joint


def rare_key(probability=0.01):
    """E9 with a sensitive key: S_2 = u where S_1 = 1, else a coin; axes S_1, S_2, u."""
    joint = np.zeros((2, 2, 2))
    for u in (0, 1):
        joint[1, u, u] = probability / 2
        joint[0, :, u] = (1 - probability) / 4
    return joint


def halves_of_a_secret():
    """E2: D = 1[Z > 0] xor u; Z and D alone tell nothing; axes Z, D, u."""
    joint = np.zeros((2, 2, 2))
    for sign in (0, 1):
        for u in (0, 1):
            joint[sign, sign ^ u, u] = 0.25
    return joint


def draw_counts(joint, n_rows, generator):
    """Return multinomial counts of a joint distribution."""
    return generator.multinomial(n_rows, joint.ravel()).reshape(joint.shape)


def table_of(joint, names, n_rows, generator):
    """Return a data frame of draws, values written as text."""
    cells = generator.choice(joint.size, n_rows, p=joint.ravel())
    codes = np.unravel_index(cells, joint.shape)
    columns = {
        name: np.char.add("v", codes[axis].astype(str))
        for axis, name in enumerate(names)
    }
    return pd.DataFrame(columns)


def policy_of(joint, names, sensitive, **options):
    """Return the policy of `table_of`: one category per code."""
    return Policy(
        tuple(
            Feature(
                name,
                "sensitive" if name in sensitive else "insensitive",
                CategoryDomain(tuple(f"v{code}" for code in range(size))),
            )
            for name, size in zip(names, joint.shape, strict=True)
        ),
        **options,
    )
