"""A whole training of a network, audited in one run with replacement canaries."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp._validate import check_choice, check_count
from corrdp.auditing._one_run import audit_one_run
from corrdp.auditing._report import AuditResult
from corrdp.auditing.statistics import claims_of
from corrdp.auditing.targets._loop import label_values
from corrdp.auditing.targets._neighbors import random_pairs
from corrdp.auditing.targets._networks import (
    network_classes,
    network_loop,
    network_training,
)
from corrdp.auditing.targets._steps import central_table
from corrdp.estimators import PrivateNetwork
from corrdp.exceptions import CorrDPError
from corrdp.policy import policy_blocks

if TYPE_CHECKING:
    from corrdp.torch import PrivateOptimizer

_NOISE_DRAWS = 1000
_STEP = 2.0  # in units of the clipping norm: far enough for gradients to differ


class _Recording:
    """An optimizer that keeps parameters and noisy gradients of every step."""

    def __init__(
        self, optimizer: "PrivateOptimizer", parameters: Sequence[Any]
    ) -> None:
        self._optimizer, self._parameters = optimizer, parameters
        self.param_groups = optimizer.param_groups
        self.steps: list[tuple[list[Any], FloatArray]] = []
        self.reference: Any = None  # released, too

    def step(self) -> None:
        weights = [parameter.detach().clone() for parameter in self._parameters]
        noisy = [parameter.grad.flatten().numpy() for parameter in self._parameters]
        self.steps.append((weights, np.concatenate(noisy).astype(np.float64)))
        self._optimizer.step()


def audit_whole_network(
    estimator: PrivateNetwork,
    *,
    n_rows: int,
    class_name: str = "sensitive",
    n_canaries: int = 60,
    n_guesses: int = 40,
    n_steps: int = 10,
    confidence: float = 0.99,
    random_state: int | None = None,
) -> AuditResult:
    """Train once on a table with canaries and guess which version each of them was.

    The adversary sees every noisy gradient, as the optimizer does, and knows all but
    the coins.

    Parameters
    ----------
    estimator : MLPClassifier or MLPRegressor
        With its policy and budget; full batches.
    n_rows : int
        Rows of the table, at least `n_canaries`; the others are central.
    class_name : str
        Class that the two versions of a canary differ in.
    n_canaries, n_guesses : int
        Canaries, and how many coins are guessed.
    n_steps : int
        Steps among which the budget is divided.
    confidence : float
        Probability with which the lower bound holds.
    random_state : int, optional
        Makes canaries and coins replayable.

    Guarantee
    ---------
    That of `audit_one_run`: the canaries are neighbors of the class, whatever they do
    to the training (`docs/theory/audit.md`, Theorem 2).
    """
    if estimator.batch_size is not None:
        raise CorrDPError(
            f"batch_size={estimator.batch_size!r}: who is in a sample hides which "
            "version of a canary is, so that one run says nothing. Audit the estimator "
            "with corrdp.audit, which runs the loop on samples many times."
        )
    check_count("n_rows", n_rows, lower=check_count("n_canaries", n_canaries))
    known, policy = network_training(estimator, n_rows, n_steps=n_steps)
    loop = network_loop(known)
    blocks, labels = policy_blocks(policy), label_values(policy)
    classes = {c.name: c for c in network_classes(estimator, policy)}
    check_choice("class_name", class_name, classes)
    neighbor = classes[class_name]
    rng = np.random.default_rng(random_state)
    pairs = random_pairs(blocks, neighbor, labels, n_canaries, rng)
    codes, y = central_table(blocks, labels, n_rows)

    def run(coins: NDArray[np.bool_], rng: np.random.Generator) -> _Recording:
        del rng  # training has its own
        from corrdp.torch.mlp import restore_first_layer, run_training

        chosen = pairs[np.arange(n_canaries), coins.astype(int)]
        rows = np.concatenate([chosen[:, :-1], codes[n_canaries:]])
        own_y = np.concatenate([chosen[:, -1], y[n_canaries:]])
        training, _ = network_training(
            estimator, n_rows, n_steps=n_steps, rows=(rows, own_y)
        )
        # Any start is covered; canaries look alike to a network that is nearly linear.
        restore_first_layer(training.module.module)
        parameters = list(training.module.module.parameters())
        recording = _Recording(training.optimizer, parameters)
        rate = _STEP / training.module.plan.layout.clip_norm
        run_training(training._replace(optimizer=recording), rate)
        recording.reference = training.module.reference
        return recording

    def score(recording: _Recording) -> FloatArray:
        """Return the mean of every coin, +-1, given all gradients, as if normal."""
        precision, evidence = np.eye(n_canaries), np.zeros(n_canaries)
        loop.module.use_reference(recording.reference)
        noise = loop.seen_noise(_NOISE_DRAWS)
        for weights, gradient in recording.steps:
            loop.place(weights)
            first, second = (
                loop.parts(pairs[:, side, :-1], pairs[:, side, -1]) for side in (0, 1)
            )
            expected = (first + second).sum(axis=0) / 2.0
            expected += loop.sum((codes[n_canaries:], y[n_canaries:]))
            moves = (second - first) / 2.0 / noise
            precision += moves @ moves.T
            evidence += moves @ ((gradient - expected) / noise)
        return np.asarray(np.linalg.solve(precision, evidence), np.float64)

    return audit_one_run(
        run,
        score,
        n_canaries=n_canaries,
        n_guesses=n_guesses,
        claim=claims_of(known.module.certificate())[class_name],
        class_name=class_name,
        target="network training, one run",
        confidence=confidence,
        random_state=random_state,
    )
