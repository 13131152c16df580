"""Training: what one record contributes, how far it can move, noise, descent."""

from corrdp.training._additive_rule import KNOT_CHOICES, additive_plan, curves_pay
from corrdp.training._budget_split import (
    BudgetSplit,
    plan_spending,
    spent_square,
    whole_record_spending,
)
from corrdp.training._default_rule import default_plan, or_constant, standard_plan
from corrdp.training._expectations import (
    LABEL_DEVIATION,
    MOST_ROWS,
    SQUARED_LOSS,
    Prediction,
    nominal_coef,
)
from corrdp.training._gradient_descent import (
    Descent,
    TrainedModel,
    constant_model,
    descend,
    descend_tiled,
    descend_together,
    initial_coef,
    is_plain,
)
from corrdp.training._hindsight import Hindsight
from corrdp.training._hosted import HostedTable, TiledPart, tiled_part
from corrdp.training._layout import (
    GradientGroup,
    GradientLayout,
    central_reference,
    standardizing_scale,
)
from corrdp.training._plan import CONSTANT, TrainingPlan
from corrdp.training._plan_inputs import PlanInputs
from corrdp.training._prepared_rows import PreparedRows, SegmentHost, prepare_rows
from corrdp.training._public_model import PublicModel, minimize_risk
from corrdp.training._records import record_gradients
from corrdp.training._sampled_descent import (
    SampledBudget,
    SampledSums,
    central_codes,
    descend_sampled,
    descend_sampled_tiled,
    plan_sampling,
)
from corrdp.training._solver import (
    LARGEST_PARAMETER,
    SVRG_EPOCH_STEPS,
    Output,
    Schedule,
    Solver,
    StepRule,
    Update,
)
from corrdp.training._step_sizes import ColumnSteps, noise_gains
from corrdp.training._theorem import (
    GradientSums,
    TheoremPlan,
    descend_by_theorem,
    iterates_by_theorem,
    layout_by_feature,
    sums_by_theorem,
    theorem_plan,
)
from corrdp.training._tiling import TiledTable, open_tiles, tiled_in_memory, write_tiles
from corrdp.training._totals import (
    LEAST_DEVIATION,
    CodeTotals,
    LabelTotals,
    free_deviation,
    labels_are_free,
    means_noise,
    release_means,
)
from corrdp.training._workers import SegmentWorkers
from corrdp.training.losses import (
    HuberLoss,
    LogisticLoss,
    Loss,
    MultinomialLoss,
    SquaredLoss,
)
from corrdp.training.sensitivity._gradient import GradientSensitivity

__all__ = [
    "CONSTANT",
    "KNOT_CHOICES",
    "LABEL_DEVIATION",
    "LARGEST_PARAMETER",
    "LEAST_DEVIATION",
    "MOST_ROWS",
    "SQUARED_LOSS",
    "SVRG_EPOCH_STEPS",
    "BudgetSplit",
    "CodeTotals",
    "ColumnSteps",
    "Descent",
    "GradientGroup",
    "GradientLayout",
    "GradientSensitivity",
    "GradientSums",
    "Hindsight",
    "HostedTable",
    "HuberLoss",
    "LabelTotals",
    "LogisticLoss",
    "Loss",
    "MultinomialLoss",
    "Output",
    "PlanInputs",
    "Prediction",
    "PreparedRows",
    "PublicModel",
    "SampledBudget",
    "SampledSums",
    "Schedule",
    "SegmentHost",
    "SegmentWorkers",
    "Solver",
    "SquaredLoss",
    "StepRule",
    "TheoremPlan",
    "TiledPart",
    "TiledTable",
    "TrainedModel",
    "TrainingPlan",
    "Update",
    "additive_plan",
    "central_codes",
    "central_reference",
    "constant_model",
    "curves_pay",
    "default_plan",
    "descend",
    "descend_by_theorem",
    "descend_sampled",
    "descend_sampled_tiled",
    "descend_tiled",
    "descend_together",
    "free_deviation",
    "initial_coef",
    "is_plain",
    "iterates_by_theorem",
    "labels_are_free",
    "layout_by_feature",
    "means_noise",
    "minimize_risk",
    "noise_gains",
    "nominal_coef",
    "open_tiles",
    "or_constant",
    "plan_sampling",
    "plan_spending",
    "prepare_rows",
    "record_gradients",
    "release_means",
    "spent_square",
    "standard_plan",
    "standardizing_scale",
    "sums_by_theorem",
    "theorem_plan",
    "tiled_in_memory",
    "tiled_part",
    "whole_record_spending",
    "write_tiles",
]
