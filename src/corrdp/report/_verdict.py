"""Whether a plan is worth its budget, in words and before anything is paid."""

from corrdp.training import TrainingPlan

WORTH = 0.5  # of what a model can gain; more lost than this is not worth a release
ROWS_PER_COEFFICIENT = 5  # with fewer, fits are bad for want of rows, protected or not


def plan_verdict(
    plan: TrainingPlan, ordinary: TrainingPlan, *, epsilon: float, delta: float
) -> str:
    """Return one honest sentence on a plan, from public numbers alone.

    Parameters
    ----------
    plan : TrainingPlan
        What would be trained.
    ordinary : TrainingPlan
        The same under ordinary differential privacy.
    epsilon, delta : float
        The budget of both.
    """
    n_coefficients = plan.layout.n_columns
    if plan.n_rows < ROWS_PER_COEFFICIENT * n_coefficients:
        return (
            f"{plan.n_rows:,} rows are too few for {n_coefficients:,} coefficients, "
            "with any protection or none, and what the plan expects is too good. "
            f"It takes some {ROWS_PER_COEFFICIENT * n_coefficients:,} rows, or fewer "
            "columns and categories."
        )
    if plan.noise_to_signal > WORTH:
        return (
            f"{plan.n_rows:,} rows are too few for epsilon {epsilon:g}: most of what a "
            f"model can gain would be lost. It takes about {plan.rows_needed():,} "
            f"rows, or epsilon {plan.epsilon_needed(delta):.3g}."
        )
    if plan.noise == "standard":
        return (
            "Use ordinary differential privacy here: protecting every column fully is "
            "expected to cost no more. The plan does so already."
        )
    better = ordinary.predicted_error / plan.predicted_error
    return (
        f"CorrDP is worth it here: ordinary differential privacy is expected to lose "
        f"{better:.2g} times as much to noise."
    )
