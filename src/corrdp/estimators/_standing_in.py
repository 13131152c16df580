"""What a linear model does in the place of a network."""

from typing import Any

import numpy as np

from corrdp._typing import FloatArray
from corrdp.estimators._family import Family
from corrdp.estimators._fitting import Charge
from corrdp.policy import PolicyEncoder
from corrdp.training import central_reference, standardizing_scale


class StandIn:
    """Linear models, which are networks without a hidden layer."""

    _coef: FloatArray
    _encoder: PolicyEncoder
    _family: Family
    _intercept: Any  # a number, or one per output

    def spend_with(self, family: Family) -> None:
        """Share the record of spending of the network whose place it takes.

        Guarantee
        ---------
        One budget for both and all their copies (`docs/theory/composition.md`,
        section 9).
        """
        self._family = family

    def train_for(self, X: Any, y: Any, pay: Charge) -> None:
        """Train in the place of a network, which pays and answers for the promise.

        Guarantee
        ---------
        That of the linear model, if `pay` charges what it is told before rows are used
        (`docs/theory/networks.md`, section 7).
        """
        self._train(X, y, pay)

    def as_layer(self) -> tuple[FloatArray, FloatArray]:
        """Return weights and bias, one row per output, for standardized codes."""
        blocks = self._encoder.blocks_
        weight = np.atleast_2d(self._coef.T) / standardizing_scale(blocks)
        bias = self._intercept + central_reference(blocks) @ self._coef
        return weight, np.atleast_1d(np.asarray(bias, dtype=np.float64))

    def _train(self, X: Any, y: Any, pay: Charge) -> None:
        raise NotImplementedError
