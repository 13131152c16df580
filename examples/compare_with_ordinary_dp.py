"""See before training what CorrDP saves, and where.

A plan is a function of public numbers: nothing is read, nothing is paid.
"""

from corrdp.datasets import hospital_policy
from corrdp.estimators import LogisticRegression
from corrdp.report import gradient_noise

options = {"epsilon": 0.5, "delta": 1e-6}
plan = LogisticRegression(hospital_policy(), **options).plan(5_000)
ordinary = LogisticRegression(hospital_policy(), method="standard", **options)
there = gradient_noise(ordinary.plan(5_000))
picture = [
    {"column": column, "plan": name, "noise": noise[column]}
    for name, noise in (("CorrDP", gradient_noise(plan)), ("ordinary DP", there))
    for column in noise
]
for column, noise in gradient_noise(plan).items():
    print(f"{column:<15} {noise / there[column]:.2f} of the noise of ordinary DP")
print(f"expected loss to noise: {plan.noise_to_signal:.1%} of what can be gained")
