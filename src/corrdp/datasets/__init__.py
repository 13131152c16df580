"""Built-in examples and the data sets of the paper."""

from corrdp.datasets._hospital import hospital_policy, hospital_policy_text

__all__ = ["hospital_policy", "hospital_policy_text"]
