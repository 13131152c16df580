"""Curves of additive models: what a feature adds to the score, with a band."""

from dataclasses import dataclass

import numpy as np

from corrdp._typing import FloatArray, JSONObject
from corrdp.exceptions import CorrDPError
from corrdp.policy import Block, BlockKind, ColumnRole, NumberDomain, PolicyEncoder

BAND = 1.96  # standard deviations of the noise either way


@dataclass(frozen=True, eq=False)
class Shape:
    """What one feature adds to the score at its knots, levels, or ends.

    Parameters
    ----------
    feature : str
        The raw feature.
    role : ColumnRole
        Its role.
    values : tuple of float or of str
        Numbers at which the curve bends, or names of levels; between numbers the
        curve is a straight line.
    effect : array of float, shape (n_values,) or (n_values, n_outputs)
        What the feature adds, minus the mean over `values`: log odds, a score per
        label, or units of the label.
    deviation : array of float, shape (n_values,), optional
        Standard deviation that noise alone gives the effect, roughly; None where it
        is not known, as in models that were trained without noise.

    Guarantee
    ---------
    Released weights and the noise that was planned, nothing else: costs nothing
    (`docs/theory/additive.md`, section 3). A band covers noise, not the chance of
    which rows there were.
    """

    feature: str
    role: ColumnRole
    values: tuple[float, ...] | tuple[str, ...]
    effect: FloatArray
    deviation: FloatArray | None

    @property
    def low(self) -> FloatArray | None:
        """Lower end of the band, 95 % if the model is right."""
        return None if self.deviation is None else self.effect - self._half()

    @property
    def high(self) -> FloatArray | None:
        """Upper end of the band."""
        return None if self.deviation is None else self.effect + self._half()

    def to_json(self) -> JSONObject:
        """Return a JSON-able description, for reports."""
        return {
            "feature": self.feature,
            "role": self.role.value,
            "values": list(self.values),
            "effect": self.effect.tolist(),
            "deviation": None if self.deviation is None else self.deviation.tolist(),
        }

    def _half(self) -> FloatArray:
        assert self.deviation is not None
        half = BAND * self.deviation
        return half if self.effect.ndim == 1 else half[:, None]


def shape_of(
    encoder: PolicyEncoder,
    feature: str,
    coef: FloatArray,
    deviation: FloatArray | None,
) -> Shape:
    """Return the shape of a feature under released weights of encoded columns."""
    own = [block for block in encoder.blocks_ if block.feature == feature]
    if not own:
        names = [declared.name for declared in encoder.policy.features]
        raise CorrDPError(
            f"the model has no feature {feature!r}. Its features are "
            f"{', '.join(names)}; name one."
        )
    values, codes = _codes(encoder, own)
    columns = slice(own[0].start, own[-1].stop)
    effect = codes @ coef[columns]
    spread = None
    if deviation is not None:
        middle = codes - codes.mean(axis=0)
        spread = np.sqrt(middle**2 @ deviation[columns] ** 2)
    return Shape(feature, own[0].role, values, effect - effect.mean(axis=0), spread)


def _codes(
    encoder: PolicyEncoder, own: list[Block]
) -> tuple[tuple[float, ...] | tuple[str, ...], FloatArray]:
    """Return the places at which a shape is drawn, and the codes of a record there."""
    first, width = own[0], own[-1].stop - own[0].start
    domain = encoder.policy.feature(first.feature).domain
    if isinstance(domain, NumberDomain):
        knots = domain.knots or (domain.lower, domain.upper)
        codes = np.zeros((len(knots), width))
        span = np.array(knots)
        codes[:, 0] = (span - span[0]) / (span[-1] - span[0]) - 0.5
        if len(own) > 1 and own[1].kind is BlockKind.HATS:
            codes[:, 1 : 1 + len(knots)] = np.eye(len(knots))
        return tuple(knots), codes
    if first.kind is BlockKind.NUMBER:
        names, codes = ["false", "true"], np.zeros((2, width))
        codes[:, 0] = -0.5, 0.5
    else:
        count = first.stop - first.start
        texts = encoder.get_feature_names_out()[first.columns]
        names = [str(text).removeprefix(f"{first.feature}=") for text in texts]
        codes = np.eye(count, width)
    if own[-1].kind is BlockKind.FLAG:
        names.append("(missing)")
        codes = np.vstack([codes, np.eye(1, width, width - 1)])
    return tuple(names), codes
