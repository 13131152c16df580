"""Correlated sensitivity and the accuracy of the CorrDP Laplace mechanism."""

import math
from typing import Literal, TypeAlias

from numpy.typing import ArrayLike

from corrdp._validate import (
    check_choice,
    check_count,
    check_epsilon,
    check_nonnegative_array,
    check_real,
)
from corrdp.exceptions import CorrDPError
from corrdp.theory._checks import check_distances, check_positive, check_probability

SensitivityForm: TypeAlias = Literal["max", "sum"]
InsensitiveRelation: TypeAlias = Literal["one_insensitive", "all_insensitive"]


def correlated_sensitivity(
    sensitive: ArrayLike,
    insensitive: ArrayLike,
    leakage: ArrayLike,
    *,
    form: SensitivityForm = "max",
    relation: InsensitiveRelation = "one_insensitive",
    sensitivity: float = math.inf,
) -> float:
    r"""Return the correlated sensitivity of Definition 2.8, in units of the query.

    Parameters
    ----------
    sensitive, insensitive : array of float
        Coordinate sensitivities :math:`\Delta f_j` of the columns of each role.
    leakage : array of float
        TV(j) of every insensitive column given it alone under ``"one_insensitive"``;
        the leakage of the whole block, repeated, under ``"all_insensitive"``.
    form : {"max", "sum"}, default "max"
        ``"sum"`` is printed. ``"max"`` is what the proof of Theorem 2.10 needs, since
        sensitive and insensitive columns never change together (E13).
    relation : {"one_insensitive", "all_insensitive"}
        Whether one insensitive column changes or any number of them.
    sensitivity : float, default infinity
        The ordinary :math:`\Delta f`, never exceeded.

    Guarantee
    ---------
    Laplace noise of scale ``correlated_sensitivity / epsilon`` on every coordinate is
    (epsilon, 0)-CorrDP under `relation`, both forms: Theorem 2.10, proof in
    `docs/theory/paper_bounds.md`. Coordinate j must read column j only.
    """
    own = check_nonnegative_array("sensitive", sensitive, ndim=1)
    others = check_nonnegative_array("insensitive", insensitive, ndim=1)
    distances = check_distances(leakage)
    if others.shape != distances.shape:
        raise CorrDPError(
            f"leakage must have one entry per insensitive column, got {distances.size} "
            f"for {others.size}. Pass arrays of equal length."
        )
    check_choice("form", form, ("max", "sum"))
    relations = ("one_insensitive", "all_insensitive")
    check_choice("relation", relation, relations, remedy="Take it from the policy.")
    ceiling = check_real("sensitivity", sensitivity, lower=0.0, allow_infinite=True)
    weighted = others * distances
    if form == "sum":
        return min(float(own.sum() + weighted.sum()), ceiling)
    alone = relation == "one_insensitive"
    moved = weighted.max(initial=0.0) if alone else weighted.sum()
    return min(max(float(own.sum()), float(moved)), ceiling)


def laplace_error_upper(
    *,
    correlated_sensitivity: float,
    epsilon: float,
    n_coordinates: int,
    failure_probability: float,
) -> float:
    r"""Return the error that the Laplace mechanism exceeds with probability beta.

    Theorem 2.10: :math:`\Delta_C f \log(K / \beta) / \epsilon` in the sup norm and in
    units of the query, by a union bound over the K coordinates.
    """
    size = check_positive("correlated_sensitivity", correlated_sensitivity)
    beta = check_probability("failure_probability", failure_probability)
    count = check_count("n_coordinates", n_coordinates)
    return size * (math.log(count) - math.log(beta)) / check_epsilon(epsilon)
