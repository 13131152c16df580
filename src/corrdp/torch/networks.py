"""The plan of a network and its parts, for who builds on them inside the library.

The experiments of the paper plan networks by hand; this is the door through which they
reach what `corrdp.torch` is made of.
"""

import torch
from torch import Tensor, nn

from corrdp._random import noise_generator
from corrdp.torch._layers import Layer, LossFunction, trained_layers
from corrdp.torch._layout import NetworkLayout
from corrdp.torch._loader import PoissonLoader
from corrdp.torch._make_private import PrivateTraining
from corrdp.torch._optimizer import PrivateOptimizer
from corrdp.torch._plan_inputs import NetworkPlan, NetworkPlanInputs, ReleaseTerms
from corrdp.torch._planning import plan_network
from corrdp.torch._private import PrivateModule
from corrdp.torch._reference import ReferencePlan
from corrdp.torch._theorem import experiment_plan

__all__ = [
    "Layer",
    "NetworkLayout",
    "NetworkPlan",
    "NetworkPlanInputs",
    "ReferencePlan",
    "ReleaseTerms",
    "experiment_plan",
    "plan_network",
    "trained_layers",
    "training_by_plan",
]


def training_by_plan(
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: tuple[Tensor, Tensor],
    plan: NetworkPlan,
    *,
    loss: LossFunction,
    terms: ReleaseTerms,
    random_state: int,
) -> PrivateTraining:
    """Return what `make_private` does, for a plan that was made by hand: for research.

    The module must treat every example by itself, which nobody checks here.

    Guarantee
    ---------
    What `plan` proves (`docs/theory/networks.md`), except that noise is replayable.
    """
    noise, generator = plan.noise, noise_generator(random_state)
    loader = PoissonLoader(
        *data, rate=noise.rate, n_steps=noise.n_steps, generator=generator
    )
    private = PrivateModule(
        module,
        trained_layers(module),
        loss=loss,
        plan=plan,
        terms=terms,
        loader=loader,
        generator=generator,
        has_random_layers=False,
    )
    return PrivateTraining(private, PrivateOptimizer(optimizer, private), loader)
