"""The plan of a network and its parts, for who builds on them inside the library.

The experiments of the paper plan, clip and noise networks by hand; this is the door
through which they reach what `corrdp.torch` is made of.
"""

from corrdp.torch._layers import Layer, trained_layers
from corrdp.torch._layout import NetworkLayout
from corrdp.torch._plan_inputs import NetworkPlan, NetworkPlanInputs
from corrdp.torch._planning import plan_network
from corrdp.torch._theorem import experiment_plan

__all__ = [
    "Layer",
    "NetworkLayout",
    "NetworkPlan",
    "NetworkPlanInputs",
    "experiment_plan",
    "plan_network",
    "trained_layers",
]
