"""Leakage: how much insensitive features tell about sensitive ones, with bounds."""

from corrdp._names import BLOCK
from corrdp._validate import check_failure_probability
from corrdp.leakage._argument import (
    LeakageInput,
    declared_or_one,
    policy_read,
    resolve_leakage,
)
from corrdp.leakage._bounds import (
    NOISE_LATTICE,
    ROUNDING_ERROR,
    hotelling_upper,
    independence_p_value,
    sampling_margin,
)
from corrdp.leakage._coding import iter_codes
from corrdp.leakage._counts import (
    MAX_CELLS,
    ContingencyCounts,
    CountLayout,
    TableShape,
    count_codes,
)
from corrdp.leakage._definition import (
    check_definition_size,
    definition_leakage,
    exact_leakage,
)
from corrdp.leakage._joining import (
    Groups,
    choose_groups,
    joined_fields,
    joined_policy,
    joined_words,
)
from corrdp.leakage._levels import TableWords, ground_distances, level_texts
from corrdp.leakage._margins import LevelSizes, known_means
from corrdp.leakage._metrics import (
    METRICS,
    Axioms,
    Hellinger,
    Metric,
    TotalVariation,
    Wasserstein,
    metric_named,
)
from corrdp.leakage._noisy import NoisyBounds, noisy_total_variation_upper
from corrdp.leakage._plug_in import noisy_leakage, plug_in_leakage
from corrdp.leakage._result import (
    FeatureLeakage,
    PaperConstants,
    PaperInputs,
    combine_parts,
)
from corrdp.leakage._targets import (
    count_layout,
    joint_layout,
    leakage_targets,
    release_targets,
    table_words,
    telling_shapes,
)
from corrdp.leakage._words import predicted_excess
from corrdp.leakage.release import (
    LeakageTable,
    declared_table,
    estimate_leakage,
    intersect_leakage,
    number_count_sensitivity,
    plan_leakage_release,
    planned_margins,
    release_number_counts,
)
from corrdp.theory import discrete_total_variation as total_variation

__all__ = [
    "BLOCK",
    "MAX_CELLS",
    "METRICS",
    "NOISE_LATTICE",
    "ROUNDING_ERROR",
    "Axioms",
    "ContingencyCounts",
    "CountLayout",
    "FeatureLeakage",
    "Groups",
    "Hellinger",
    "LeakageInput",
    "LeakageTable",
    "LevelSizes",
    "Metric",
    "NoisyBounds",
    "PaperConstants",
    "PaperInputs",
    "TableShape",
    "TableWords",
    "TotalVariation",
    "Wasserstein",
    "check_definition_size",
    "check_failure_probability",
    "choose_groups",
    "combine_parts",
    "count_codes",
    "count_layout",
    "declared_or_one",
    "declared_table",
    "definition_leakage",
    "estimate_leakage",
    "exact_leakage",
    "ground_distances",
    "hotelling_upper",
    "independence_p_value",
    "intersect_leakage",
    "iter_codes",
    "joined_fields",
    "joined_policy",
    "joined_words",
    "joint_layout",
    "known_means",
    "leakage_targets",
    "level_texts",
    "metric_named",
    "noisy_leakage",
    "noisy_total_variation_upper",
    "number_count_sensitivity",
    "plan_leakage_release",
    "planned_margins",
    "plug_in_leakage",
    "policy_read",
    "predicted_excess",
    "release_number_counts",
    "release_targets",
    "resolve_leakage",
    "sampling_margin",
    "table_words",
    "telling_shapes",
    "total_variation",
]
