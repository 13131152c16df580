"""What codes mean, alone and as the rows and columns of a table: words, distances."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from corrdp._typing import FloatArray
from corrdp.policy import BooleanDomain, CategoryDomain, Feature, NumberDomain, Slot


def level_texts(feature: Feature, n_codes: int) -> tuple[str, ...]:
    """Return one text per code, such as ``race = White`` or ``age in [17, 26.1)``."""
    domain = feature.domain
    if isinstance(domain, CategoryDomain):
        levels = [f"{feature.name} = {level}" for level in domain.levels]
        levels += [f"{feature.name} = any other value"] * domain.other
    elif isinstance(domain, BooleanDomain):
        levels = [f"{feature.name} = false", f"{feature.name} = true"]
    else:
        n_bins = n_codes - isinstance(domain.missing, Slot)
        edges = (
            np.asarray(domain.edges)
            if domain.joined
            else np.linspace(domain.lower, domain.upper, n_bins + 1)
        )
        levels = [
            f"{feature.name} in [{low:.6g}, {high:.6g})"
            for low, high in pairwise(edges)
        ]
        levels[-1] = levels[-1][:-1] + "]"
        if domain.steps is not None and len(domain.steps) == n_bins:
            levels = [f"{feature.name} = {step}" for step in domain.steps]
    if isinstance(domain.missing, Slot):
        levels.append(f"{feature.name} is missing")
    return tuple(levels)


def joint_text(texts: Sequence[Sequence[str]], code: int) -> str:
    """Return the text of a joint code, the last feature fastest."""
    parts = []
    for levels in reversed(texts):
        code, own = divmod(code, len(levels))
        parts.append(levels[own])
    return ", ".join(reversed(parts))


def ground_distances(feature: Feature, n_codes: int) -> FloatArray:
    """Return how far apart the codes of a feature are, in [0, 1].

    Bins of a number by their places, from 0 for the first to 1 for the last; any two
    categories, and a missing value and anything else, are 1 apart.
    """
    distances = 1.0 - np.eye(n_codes)
    if isinstance(feature.domain, NumberDomain):
        n_bins = n_codes - isinstance(feature.domain.missing, Slot)
        place = np.arange(n_bins) / max(1, n_bins - 1)
        distances[:n_bins, :n_bins] = np.abs(place[:, None] - place)
    return distances


def resolution_assumptions(changed: Sequence[Feature]) -> tuple[str, ...]:
    """Return what counting binned numbers assumes of the changed features."""
    return tuple(
        f"{feature.name} enters the model binned, or values inside one of its bins "
        "tell the same about the sensitive features"
        for feature in changed
        if isinstance(feature.domain, NumberDomain)
    )


@dataclass(frozen=True)
class TableWords:
    """What the rows and columns of a table mean.

    Parameters
    ----------
    value_texts : sequence of sequence of str
        Per feature of the rows, one text per code.
    ground : sequence of arrays
        Per sensitive feature, distances of its codes.
    assumptions : tuple of str
        What counting at this resolution assumes.
    """

    value_texts: Sequence[Sequence[str]]
    ground: Sequence[FloatArray]
    assumptions: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        changed: Sequence[tuple[Feature, int]],
        sensitive: Sequence[tuple[Feature, int]],
    ) -> Self:
        """Return the words of a table, from features and their numbers of codes."""
        return cls(
            [level_texts(*feature) for feature in changed],
            [ground_distances(*feature) for feature in sensitive],
            resolution_assumptions([feature for feature, _ in changed]),
        )

    def value(self, code: int) -> str:
        """Return the text of a row of the table."""
        return joint_text(self.value_texts, code)
