"""Privacy accounting: curves, events and composition, from numbers alone."""

from corrdp._names import WHOLE_RECORD
from corrdp.accounting._allocation import (
    NoiseAllocation,
    allocate_noise,
    is_within_budget,
    isotropic_noise,
    least_variance,
    step_mu,
)
from corrdp.accounting._composition import (
    compose_delta,
    compose_epsilon,
    epsilon_within,
)
from corrdp.accounting._events import (
    ApproximateEvent,
    GaussianEvent,
    LaplaceEvent,
    PrivacyEvent,
    SampledGaussianEvent,
    SelectedGaussianEvent,
    event_from_json,
)
from corrdp.accounting._gaussian import (
    composed_mu,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    gaussian_noise_multiplier,
    gaussian_steps,
    noise_multiplier_mu,
)
from corrdp.accounting._loss_distribution import PrivacyLossDistribution
from corrdp.accounting._online_allocation import OnlineAllocator
from corrdp.accounting._paper_noise import (
    NetworkNoiseVariance,
    experiment_leakage,
    experiment_noise_variance,
    in_sample_leakage_upper,
    paper_network_noise_variance,
    paper_noise_variance,
    scored_leakage,
)
from corrdp.accounting._plan import NoisePlan
from corrdp.accounting._planning import plan_noise
from corrdp.accounting._renyi import renyi_divergence, renyi_epsilon
from corrdp.accounting._risk import NO_PROTECTION, Risk, attack_risk, true_positive_rate
from corrdp.accounting._sampled import sampled_delta
from corrdp.accounting._sampled_conversions import (
    sampled_change,
    sampled_epsilon,
    sampled_noise_multiplier,
    sampled_steps,
)
from corrdp.accounting._selection import selected_mu
from corrdp.accounting._sensitivity import Group, SensitivityTable

__all__ = [
    "NO_PROTECTION",
    "WHOLE_RECORD",
    "ApproximateEvent",
    "GaussianEvent",
    "Group",
    "LaplaceEvent",
    "NetworkNoiseVariance",
    "NoiseAllocation",
    "NoisePlan",
    "OnlineAllocator",
    "PrivacyEvent",
    "PrivacyLossDistribution",
    "Risk",
    "SampledGaussianEvent",
    "SelectedGaussianEvent",
    "SensitivityTable",
    "allocate_noise",
    "attack_risk",
    "compose_delta",
    "compose_epsilon",
    "composed_mu",
    "epsilon_within",
    "event_from_json",
    "experiment_leakage",
    "experiment_noise_variance",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "gaussian_noise_multiplier",
    "gaussian_steps",
    "in_sample_leakage_upper",
    "is_within_budget",
    "isotropic_noise",
    "least_variance",
    "noise_multiplier_mu",
    "paper_network_noise_variance",
    "paper_noise_variance",
    "plan_noise",
    "renyi_divergence",
    "renyi_epsilon",
    "sampled_change",
    "sampled_delta",
    "sampled_epsilon",
    "sampled_noise_multiplier",
    "sampled_steps",
    "scored_leakage",
    "selected_mu",
    "step_mu",
    "true_positive_rate",
]
