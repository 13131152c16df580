"""Multilayer perceptrons with softplus units, trained under a policy."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from corrdp._random import noise_generator
from corrdp._typing import FloatArray
from corrdp.torch._checkpoint import save_checkpoint
from corrdp.torch._make_private import PrivateTraining, make_private
from corrdp.torch._plan_inputs import NetworkPlan

MOMENTUM = 0.9
SOFTPLUS_AT_ZERO = math.log(2.0)
# Gradients of cross-entropy at the outputs are never longer. Residuals of numbers are
# not bounded: the clipping norm is so small that nearly all are cut anyway.
RESIDUAL_BOUND = {"classification": math.sqrt(2.0), "regression": None}
CLIP_NORM = {"classification": 2.0, "regression": 0.12}
# Of one step, and of all noise together, in units of the clipping norm.
LARGEST_STEP = {"classification": 3.0, "regression": 1.0}
TOLERATED_WALK = {"classification": 16.0, "regression": 4.0}
# Where there is little but noise, no further: the walk at which less is tolerated, and
# the least that is.
NOISY_WALK = {"classification": 40.0, "regression": math.inf}
LEAST_TOLERATED = {"classification": 5.0, "regression": 4.0}
# Noise of one step beyond which a line learns more than a network (`NetworkPlan`).
LARGEST_DEVIATION = 0.0052
_PLAIN_ITERATIONS = 200

Weights = tuple[tuple[FloatArray, FloatArray], ...]


def train_network(
    training: PrivateTraining,
    *,
    n_outputs: int,
    learning_rate: float | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1,
) -> Weights:
    """Train with momentum and falling steps; average the last half of the iterates.

    Returns weights, shape (outputs, inputs), and biases of all layers. The learning
    rate is by default a function of the plan's noise and of the kind of loss. What a
    checkpoint holds was loaded before.

    Guarantee
    ---------
    That of `make_private` (`docs/theory/networks.md`): start, step size, momentum and
    averaging are post-processing or depend on public numbers.
    """
    batch, kind = training.loader.expected_batch, kind_of_loss(n_outputs)
    rate = learning_rate or default_rate(training.module.plan, batch, kind)
    return run_training(training, rate, checkpoint, checkpoint_every)


def private_network(
    features: FloatArray | Tensor,
    labels: NDArray[Any] | Tensor,
    *,
    hidden_units: Sequence[int],
    n_outputs: int,
    clip_norm: float | None,
    random_state: int | None,
    **arguments: Any,
) -> PrivateTraining:
    """Return a new network with its private training.

    Features are scaled codes, shape (n, n_columns), labels class indices, or numbers if
    `n_outputs` is 1. The clipping norm is by default that of the kind of loss; further
    arguments are those of `make_private`.

    Guarantee
    ---------
    That of `make_private` (`docs/theory/networks.md`).
    """
    kind = kind_of_loss(n_outputs)
    inputs, targets = as_tensors(features, labels, n_outputs)
    network = build_network(
        inputs.shape[1],
        hidden_units,
        n_outputs,
        random_state,
        centered=is_centered(kind, arguments.get("calibration", "certified")),
    )
    shrink_first_layer(network)
    norm = CLIP_NORM[kind] if clip_norm is None else clip_norm
    return make_private(
        network,
        torch.optim.SGD(network.parameters(), lr=1.0, momentum=MOMENTUM),
        (inputs, targets),
        loss=squared_error if n_outputs == 1 else cross_entropy,
        clip_norm=norm,
        residual_bound=RESIDUAL_BOUND[kind],
        random_state=random_state,
        **arguments,
    )


def planned_network(
    n_rows: int, n_columns: int, *, n_outputs: int, **arguments: Any
) -> PrivateTraining:
    """Return the training of `private_network` on rows of which none is there.

    All are one row at the center of the codes, whatever their number: for plans, which
    are functions of public numbers. No row is read.
    """
    codes = torch.zeros(1, n_columns).expand(n_rows, n_columns)
    kind = torch.float32 if n_outputs == 1 else torch.int64
    labels = torch.zeros(1, dtype=kind).expand(n_rows)
    return private_network(codes, labels, n_outputs=n_outputs, **arguments)


def is_centered(kind: str, calibration: str) -> bool:
    """Whether hidden units are centered: where gradients are clipped by residuals."""
    return calibration == "certified" and RESIDUAL_BOUND[kind] is not None


def is_too_noisy(plan: NetworkPlan) -> bool:
    """Return whether a line is expected to learn more than the network of a plan.

    Never by the theorem, whose plans predict nothing. A function of public numbers
    (`docs/theory/networks.md`, section 7).
    """
    return plan.deviation > LARGEST_DEVIATION


def kind_of_loss(n_outputs: int) -> str:
    """Return what one output, or several, stand for."""
    return "regression" if n_outputs == 1 else "classification"


def train_plainly(
    features: FloatArray,
    labels: NDArray[Any],
    *,
    hidden_units: Sequence[int],
    n_outputs: int,
    random_state: int | None,
) -> Weights:
    """Return the weights of a network trained without any protection."""
    network = build_network(features.shape[1], hidden_units, n_outputs, random_state)
    inputs, targets = as_tensors(features, labels, n_outputs)
    loss = squared_error if n_outputs == 1 else cross_entropy
    optimizer = torch.optim.LBFGS(
        network.parameters(), max_iter=_PLAIN_ITERATIONS, line_search_fn="strong_wolfe"
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        mean = loss(network(inputs), targets).mean()
        mean.backward()  # type: ignore[no-untyped-call]
        return mean

    optimizer.step(closure)  # type: ignore[no-untyped-call]
    return read_weights(network)


def default_rate(plan: NetworkPlan, expected_batch: float, kind: str) -> float:
    r"""Return the first step size, which falls with the noise: a function of the plan.

    With :math:`w` the distance that noise alone would carry the parameters at the
    largest step :math:`r`, and :math:`w_0` how far it may: :math:`r / (1 + w / w_0)`.
    """
    step, walk = LARGEST_STEP[kind], noise_walk(plan, expected_batch)
    tolerated = TOLERATED_WALK[kind]
    if walk > NOISY_WALK[kind]:
        tolerated = max(LEAST_TOLERATED[kind], tolerated * NOISY_WALK[kind] / walk)
    return step / plan.layout.clip_norm / (1.0 + step * walk / tolerated)


def noise_walk(plan: NetworkPlan, expected_batch: float) -> float:
    """Return how far all noise carries the parameters, per step and clipping norm."""
    noise = plan.noise
    variance = float(np.sum(noise.table.sizes * noise.noise_scale**2))
    return math.sqrt(variance * noise.n_steps) / expected_batch / plan.layout.clip_norm


class CenteredSoftplus(nn.Module):
    """Softplus that maps zero to zero.

    Without the shift every unit says nearly the same of every record, which fills the
    gradient of the next layer with what its bias learns already.
    """

    def forward(self, inputs: Tensor) -> Tensor:
        """Return ``softplus(inputs) - log(2)``."""
        return nn.functional.softplus(inputs).sub_(SOFTPLUS_AT_ZERO)


def build_network(
    n_inputs: int,
    hidden_units: Sequence[int],
    n_outputs: int,
    random_state: int | None,
    *,
    centered: bool = False,
) -> nn.Sequential:
    """Return linear layers with softplus between them, started at random."""
    seed = random_state
    if seed is None:
        seed = int(noise_generator().integers(2**62))
    layers: list[nn.Module] = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed % 2**64)  # torch takes no longer ones
        for width in hidden_units:
            unit = CenteredSoftplus() if centered else nn.Softplus()
            layers += [nn.Linear(n_inputs, width), unit]
            n_inputs = width
        layers.append(nn.Linear(n_inputs, n_outputs))
    return nn.Sequential(*layers)


def shrink_first_layer(network: nn.Sequential) -> None:
    """Let wide networks start nearly linear, and map the center of all codes to zero.

    That is the middle of the label's range, or equal odds: noise need not first carry
    the network there. Small weights are where softplus is nearly linear: among many
    columns, curvature at random takes many steps to unlearn. The last weights keep
    their signs and get one size, so that no start is unlucky.
    """
    first, last = network[0], network[-1]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        first.weight.mul_(_start_scale(first))
        first.bias.mul_(_start_scale(first))
        size = 1.0 / math.sqrt(3.0 * last.in_features)  # their usual deviation
        last.weight.copy_(torch.where(last.weight < 0, -size, size))
        last.bias.sub_(network(torch.zeros(1, first.in_features)).squeeze(0))


def restore_first_layer(network: nn.Module) -> None:
    """Undo what `shrink_first_layer` did: for audits."""
    first = next(part for part in network.modules() if isinstance(part, nn.Linear))
    with torch.no_grad():
        first.weight.div_(_start_scale(first))
        first.bias.div_(_start_scale(first))


def _start_scale(first: nn.Linear) -> float:
    """Return the size of the first layer in units of torch's own start."""
    return min(1.0, 2.0 / math.sqrt(first.in_features))


def as_tensors(
    features: FloatArray | Tensor, labels: NDArray[Any] | Tensor, n_outputs: int
) -> tuple[Tensor, Tensor]:
    """Return rows and labels as the losses take them; tensors are kept as they are."""
    if isinstance(features, Tensor) and isinstance(labels, Tensor):
        return features, labels
    kind = torch.float32 if n_outputs == 1 else torch.int64
    return torch.tensor(features, dtype=torch.float32), torch.tensor(labels, dtype=kind)


def squared_error(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the squared error of every example."""
    return (outputs.squeeze(1) - labels).square()


def cross_entropy(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return the softmax cross-entropy of every example."""
    return nn.functional.cross_entropy(outputs, labels, reduction="none")


def read_weights(network: nn.Module) -> Weights:
    """Return weights and biases of all linear layers in order, for plain softplus.

    What centered units leave out is moved to the bias of the layer that reads them.
    """
    weights, shift = [], 0.0
    for part in network.modules():
        if isinstance(part, CenteredSoftplus):
            shift = SOFTPLUS_AT_ZERO
        elif isinstance(part, nn.Linear):
            weight = part.weight.detach().numpy().astype(np.float64)
            bias = part.bias.detach().numpy().astype(np.float64)
            weights.append((weight, bias - shift * weight.sum(axis=1)))
    return tuple(weights)


def run_training(
    training: PrivateTraining,
    rate: float,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 1,
) -> Weights:
    """Return the average of the last half of the iterates, as far as seen here."""
    module, optimizer, loader = training
    average = AveragedModel(module.module)
    for features, labels in loader:
        module.backward(features, labels)
        left = 1.0 - (loader.steps_taken - 1) / loader.n_steps
        for group in optimizer.param_groups:
            group["lr"] = rate * left * (1.0 - MOMENTUM)
        optimizer.step()
        if 2 * loader.steps_taken > loader.n_steps:
            average.update_parameters(module.module)
        if checkpoint is not None and loader.steps_taken % checkpoint_every == 0:
            save_checkpoint(training, checkpoint)
    return read_weights(average.module if average.n_averaged > 0 else module)
