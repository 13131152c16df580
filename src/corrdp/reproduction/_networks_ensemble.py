"""Many two-layer networks trained at once, each as `corrdp.torch` trains it alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from corrdp._random import noise_generator
from corrdp.exceptions import CorrDPError
from corrdp.reproduction._networks_clipping import Clipper, NetworkShape, Rows
from corrdp.torch.networks import NetworkLayout, NetworkPlan

StepSize: TypeAlias = Callable[[NetworkPlan, int], float]
"""Maps a plan and the number of steps taken to the next step size."""

_MODELS_PER_PASS = 10  # activations of so many models stay in the cache
_NO_CLIPPING = 1e30


@dataclass(frozen=True)
class Schedule:
    """How released gradients are used: post-processing, the same for all models."""

    step_size: StepSize
    momentum: float = 0.0  # share of the last direction that is kept
    averages: bool = False  # the mean of the last half of the iterates, not the last


def train_together(
    rows: Rows,
    start: Tensor,
    plans: Sequence[NetworkPlan],
    *,
    shape: NetworkShape,
    schedule: Schedule,
    random_state: int,
) -> Tensor:
    """Return the parameters of one network per plan, all from one start and one seed.

    Batches and standard normal noise are drawn as `corrdp.torch` draws them from the
    same seed, so that every model is the one that would be trained alone, and models
    differ in their plan only. All plans have the same number of steps and sampling
    rate. Initial parameters, shape (n_parameters,), stand layer by layer, weights
    before biases; so do those returned, one row per model, for plain softplus.

    Guarantee
    ---------
    What the plans prove (`docs/theory/networks.md`), except that noise is replayable.
    """
    trained = torch.empty(len(plans), start.numel(), dtype=start.dtype)
    kinds = [tuple(group.name for group in plan.layout.groups) for plan in plans]
    for kind in dict.fromkeys(kinds):
        chosen = [index for index, own in enumerate(kinds) if own == kind]
        for first in range(0, len(chosen), _MODELS_PER_PASS):
            part = chosen[first : first + _MODELS_PER_PASS]
            trained[part] = _train_alike(
                rows, start, [plans[i] for i in part], shape, schedule, random_state
            )
    if not torch.isfinite(trained).all():
        raise CorrDPError(
            "the parameters of a network are not finite after training. Lower the step "
            "size."
        )
    return shape.uncentered(trained)


def _train_alike(
    rows: Rows,
    start: Tensor,
    plans: Sequence[NetworkPlan],
    shape: NetworkShape,
    schedule: Schedule,
    random_state: int,
) -> Tensor:
    """Train models whose layouts have the same groups."""
    n_steps, rate = plans[0].noise.n_steps, plans[0].noise.rate
    expected_batch = rows.n_rows * (1.0 if rate is None else rate)
    parameters = start.repeat(len(plans), 1)
    scale = torch.stack([shape.noise_scale(plan).to(start) for plan in plans])
    generator = noise_generator(random_state)
    layouts = [plan.layout for plan in plans]
    if plans[0].reference is not None:
        layouts = _with_references(plans, rows, generator)
    clipper = Clipper(layouts, shape, start)
    clipper.read(rows)
    dtype = np.float64 if start.dtype == torch.float64 else np.float32
    direction = torch.zeros_like(parameters)
    total, n_averaged = torch.zeros_like(parameters), 0
    for step in range(n_steps):
        if rate is not None:
            clipper.read(rows.draw(rate, generator))
        gradient = clipper.clipped_sum(parameters)
        noise = torch.from_numpy(generator.standard_normal(start.numel(), dtype=dtype))
        gradient.addcmul_(scale, noise).div_(expected_batch)
        direction.mul_(schedule.momentum).add_(gradient)
        sizes = [schedule.step_size(plan, step) for plan in plans]
        parameters.addcmul_(direction, -start.new_tensor(sizes)[:, None])
        if schedule.averages and 2 * (step + 1) > n_steps:
            total += parameters
            n_averaged += 1
    return total / n_averaged if n_averaged else parameters


def _with_references(
    plans: Sequence[NetworkPlan], rows: Rows, generator: np.random.Generator
) -> list[NetworkLayout]:
    """Return layouts with released references, all with the same standard noise."""
    state, layouts = generator.bit_generator.state, []
    for plan in plans:
        assert plan.reference is not None
        generator.bit_generator.state = state
        reference = plan.reference.release(rows.repeated(), generator)
        layouts.append(replace(plan.layout, reference=reference))
    return layouts


def constant_steps(size: float) -> StepSize:
    """Return the paper's rule: one step size throughout."""

    def step_size(plan: NetworkPlan, step: int) -> float:
        del plan, step
        return size

    return step_size


def without_privacy(plan: NetworkPlan) -> NetworkPlan:
    """Return the plan of the same training with neither clipping nor noise.

    Guarantee
    ---------
    None, and the plan says so: its price is infinite (`docs/theory/networks.md`).
    """
    noise = replace(plan.noise, noise_scale=np.zeros_like(plan.noise.noise_scale))
    layout = plan.layout.with_clip_norm(_NO_CLIPPING)
    return replace(plan, method="nonprivate", layout=layout, noise=noise)
