"""The privacy lemmas of the paper as numbers."""

from corrdp.theory.privacy._guarantees import (
    AmplificationClaim,
    CorrDPGuarantee,
    amplification_claim,
    amplified_epsilon,
    composed,
    high_probability_composed,
    post_processed,
    subsampled,
    variability_loss,
    variability_loss_upper,
    whole_record,
)
from corrdp.theory.privacy._moments import (
    gaussian_log_moment,
    gaussian_renyi_divergence,
    moments_epsilon,
    proof_noise_variance,
    proof_order,
    tail_delta,
)

__all__ = [
    "AmplificationClaim",
    "CorrDPGuarantee",
    "amplification_claim",
    "amplified_epsilon",
    "composed",
    "gaussian_log_moment",
    "gaussian_renyi_divergence",
    "high_probability_composed",
    "moments_epsilon",
    "post_processed",
    "proof_noise_variance",
    "proof_order",
    "subsampled",
    "tail_delta",
    "variability_loss",
    "variability_loss_upper",
    "whole_record",
]
