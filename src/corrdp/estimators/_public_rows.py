"""Rows that a user declares public: read freely, never charged."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp.engines import refuse_hosted
from corrdp.estimators._labels import label_column
from corrdp.exceptions import CorrDPError, PolicyError
from corrdp.policy import (
    Feature,
    NeighborRelation,
    Policy,
    PolicyEncoder,
    without_knots,
)
from corrdp.training import Loss, PublicModel, TrainedModel

FEWEST_ROWS = 20


@dataclass(frozen=True, eq=False)
class PublicRows:
    """A table declared public, checked against the policy.

    Guarantee
    ---------
    Whatever is computed from it costs nothing, if the rows are public: neither
    secret, nor chosen or cleaned with the help of private ones. That is the user's
    declaration, and the certificate lists it (`docs/theory/public_rows.md`).
    """

    table: Any
    labels: NDArray[Any]
    policy: Policy

    @classmethod
    def read(cls, table: Any, policy: Any) -> "PublicRows":
        """Check and encode a table that holds features and label."""
        if not isinstance(policy, Policy) or policy.label is None:
            raise PolicyError(
                "public_rows needs a Policy that declares the label. Pass one, or "
                "leave public_rows out."
            )
        refuse_hosted(table, "a start from public rows")
        missing = "public_rows has no column {}. Pass public rows with labels."
        column = label_column(table, policy, missing)
        labels = PolicyEncoder(policy).encode_label(column)
        if len(labels) < FEWEST_ROWS:
            raise CorrDPError(
                f"public_rows has {len(labels)} rows, fewer than {FEWEST_ROWS} tell "
                "nothing. Leave public_rows out."
            )
        rows = cls(table, np.asarray(labels, dtype=np.float64), policy)
        rows.codes(without_knots(policy))  # cells are refused before anything is paid
        return rows

    @property
    def assumption(self) -> str:
        """What a certificate says about the rows."""
        return f"public rows: declared by the user, n = {len(self.labels)}"

    def codes(self, policy: Policy) -> FloatArray:
        """Return the rows as another policy of the same features codes them."""
        return np.asarray(PolicyEncoder(policy).fit(self.table).transform(self.table))

    def model(self, policy: Policy, loss: Loss) -> PublicModel:
        """Return the best linear model of these rows in the codes of a policy."""
        blocks = PolicyEncoder(policy).blocks_
        return PublicModel.fit(self.codes(policy), self.labels, loss, blocks)

    def knots(self, feature: Feature, n_knots: int) -> tuple[float, ...] | None:
        """Return bounds and quantiles of a number; None where it hardly varies."""
        domain: Any = feature.domain
        straight = without_knots(self.policy)
        codes = self.codes(straight)
        (column,) = (
            block.start
            for block in PolicyEncoder(straight).blocks_
            if block.name == feature.name
        )
        values = domain.lower + (codes[:, column] + 0.5) * (domain.upper - domain.lower)
        inner = np.quantile(values, np.linspace(0.0, 1.0, n_knots)[1:-1])
        least = (domain.upper - domain.lower) * 1e-3
        knots = [domain.lower]
        for knot in inner.tolist():
            if knot - knots[-1] > least and domain.upper - knot > least:
                knots.append(knot)
        knots.append(domain.upper)
        return tuple(knots) if len(knots) > 2 else None


def is_declared(policy: Policy) -> bool:
    """Return whether a policy says what its insensitive features leak."""
    if policy.relation is NeighborRelation.ALL_INSENSITIVE:
        return policy.block_leakage is not None
    features = [policy.feature(name) for name in policy.insensitive]
    return all(feature.known_leakage is not None for feature in features)


def mixed_fit(
    model: PublicModel, fit: TrainedModel, private_excess: float
) -> TrainedModel:
    """Return a private fit averaged with the model of public rows, path and all.

    Guarantee
    ---------
    Post-processing of the private fit: its certificate stays
    (`docs/theory/public_rows.md`, section 1).
    """
    share = model.share(private_excess)
    coef, intercept = model.mixed(fit.coef, fit.intercept, share)
    path = tuple(
        (step, *model.mixed(weights, constant, share))
        for step, weights, constant in fit.path
    )
    deviation = None if fit.deviation is None else share * fit.deviation
    return replace(fit, coef=coef, intercept=intercept, path=path, deviation=deviation)
