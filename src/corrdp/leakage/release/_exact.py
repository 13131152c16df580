"""Leakage from exact rows: public ones, or private ones in research and theory."""

import math
from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np

from corrdp.accounting import in_sample_leakage_upper
from corrdp.engines import is_hosted
from corrdp.exceptions import PolicyError
from corrdp.leakage._definition import definition_leakage
from corrdp.leakage._plug_in import plug_in_leakage
from corrdp.leakage._result import FeatureLeakage, PaperConstants, PaperInputs
from corrdp.leakage._targets import count_layout, joint_layout, table_words
from corrdp.leakage.estimators import (
    EstimationContext,
    Estimator,
    PlugIn,
    choose_estimator,
    read_sample,
)
from corrdp.leakage.release._noise import grouped
from corrdp.leakage.release._request import LeakageRequest
from corrdp.policy import Conditioning, number_columns
from corrdp.tables import is_source, read_table
from corrdp.theory import (
    discrete_estimation_constants,
    gaussian_estimation_constants,
    histogram_estimation_constants,
)


def exact_leakages(
    request: LeakageRequest, targets: Mapping[str, tuple[str, ...]]
) -> dict[str, FeatureLeakage]:
    policy = request.policy
    if policy.conditioning is Conditioning.DEFINITION:
        return _by_definition(request, targets)
    chosen = {
        name: (request.estimator, "asked for")
        if request.estimator is not None
        else choose_estimator(policy, changed)
        for name, changed in targets.items()
    }
    counted = {n: targets[n] for n, (e, _) in chosen.items() if isinstance(e, PlugIn)}
    features: dict[str, FeatureLeakage] = {}
    if counted:
        layout = count_layout(policy, counted, max_cells=request.max_cells)
        for shape, table in zip(
            layout.shapes, request.counts(layout).tables, strict=True
        ):
            sizes = table.sum(axis=1).astype(np.float64)
            groups = request.groups(
                shape, sizes, noise_scale=0.0, n_rows=int(table.sum())
            )
            joined = request.joined(shape, groups, sizes)
            features[shape.name] = joined.of(
                plug_in_leakage(
                    grouped(table, groups),
                    joined.words,
                    metric=request.metric,
                    failure_probability=request.feature_failure_probability,
                )
            )
    rest = {name: e for name, (e, _) in chosen.items() if name not in counted}
    if rest:
        features |= _by_values(request, targets, rest)
    return {
        name: replace(
            features[name], method=f"{features[name].method} ({chosen[name][1]})"
        )
        for name in targets
    }


def _by_values(
    request: LeakageRequest,
    targets: Mapping[str, tuple[str, ...]],
    estimators: Mapping[str, Estimator],
) -> dict[str, FeatureLeakage]:
    frame = request.data
    if is_hosted(frame):
        raise PolicyError(
            f"some columns have no declared bins and are estimated from values, and a "
            f"{type(frame).__name__} stays where it is. Declare bins, so that rows are "
            "counted there, or bring the rows to one machine."
        )
    if is_source(frame):
        features = request.policy.features
        names = [feature.name for feature in features]
        frame = read_table(frame, names, number_columns=number_columns(features))
    context = EstimationContext(
        metric=request.metric,
        failure_probability=request.feature_failure_probability,
        generator=np.random.default_rng(request.random_state),
    )
    return {
        name: estimator.estimate(
            read_sample(
                frame,
                request.policy,
                targets[name],
                discrete_numbers=estimator.name != "gaussian",
            ),
            context,
        )
        for name, estimator in estimators.items()
    }


def _by_definition(
    request: LeakageRequest, targets: Mapping[str, tuple[str, ...]]
) -> dict[str, FeatureLeakage]:
    policy = request.policy
    if request.metric.name != "total_variation":
        raise PolicyError(
            f"conditioning='definition' is for total variation, got "
            f"metric={request.metric.name!r}. Use metric='total_variation'."
        )
    if request.estimator is not None and not isinstance(request.estimator, PlugIn):
        raise PolicyError(
            "conditioning='definition' is computed from counts only, got "
            f"estimator={request.estimator.name!r}. Leave estimator out."
        )
    layout = joint_layout(policy)
    names = layout.sensitive
    joint = (
        request.counts(layout)
        .tables[0]
        .reshape([layout.n_codes[name] for name in names])
    )
    features = {}
    for target, changed in targets.items():
        found = definition_leakage(
            joint,
            sensitive=[names.index(name) for name in policy.sensitive],
            changed=[names.index(name) for name in changed],
            failure_probability=request.feature_failure_probability,
        )
        known = ", ".join(names[axis] for axis in found.known) or "nothing else"
        features[target] = FeatureLeakage(
            estimate=found.estimate,
            upper=found.upper,
            method="plug-in counts over all sets of known features (Definition 2.5)",
            reason=f"largest when {known} is known"
            + (
                f"; the bound is 1 because {found.unseen} combinations of values have "
                "no rows; merge values or declare fewer bins"
                if found.unseen
                else ""
            ),
            assumptions=table_words(policy, changed).assumptions,
        )
    return features


def with_paper_upper(
    features: Mapping[str, FeatureLeakage], delta: float
) -> dict[str, FeatureLeakage]:
    """Add Definition 4.3 with the constants that Appendix D prints (E14, E15)."""
    adjusted = {}
    for name, found in features.items():
        adjusted[name] = found
        if found.paper_inputs is None:
            continue
        constants = _paper_constants(found.paper_inputs)
        upper = 1.0
        if math.isfinite(constants.error_constant):
            upper = in_sample_leakage_upper(
                np.full(len(features), found.estimate),
                delta=delta,
                n_rows=found.paper_inputs.n_rows,
                error_constant=constants.error_constant,
                rate_exponent=constants.rate_exponent,
            )[0]
        adjusted[name] = replace(
            found, paper_upper=float(upper), paper_constants=constants
        )
    return adjusted


def _paper_constants(inputs: PaperInputs) -> PaperConstants:
    if inputs.example == "gaussian":
        printed = gaussian_estimation_constants(
            conditional_scale=inputs.conditional_scale, n_rows=inputs.n_rows
        )
    elif inputs.example == "discrete":
        printed = discrete_estimation_constants(
            n_sensitive_categories=inputs.n_sensitive_codes,
            n_insensitive_categories=inputs.n_values,
            smallest_probability=inputs.smallest_probability or 1.0,
        )
    else:
        printed = histogram_estimation_constants(
            n_bins=inputs.n_sensitive_codes,
            n_insensitive_categories=inputs.n_values,
            smallest_probability=inputs.smallest_probability or 1.0,
            bound=1.0,
        )
    constants = asdict(printed)
    if inputs.example != "gaussian" and inputs.smallest_probability == 0.0:
        constants |= {"error_constant": math.inf, "stability_constant": math.inf}
    return PaperConstants(**constants)
