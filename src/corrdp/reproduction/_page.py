"""The page of findings: what the paper says, what was measured, and the verdict."""

import math
from collections.abc import Sequence

from corrdp.certificate import Calibration
from corrdp.reproduction._experiments import PRIVATE_METHODS, Experiment, Model
from corrdp.reproduction._findings import Finding, Verdict, available
from corrdp.reproduction._results import Panel, Results, deviation
from corrdp.reproduction._sentences import EQUAL_PROOF, FINDINGS

_BOUNDS = {
    "synthetic": "not enforced: the root mean square of a gradient at the true "
    "parameters. Nothing is clipped, so no epsilon is proved, whatever the noise",
    "adult": "enforced by the declared domain: the largest norm of a row, residuals "
    "being below 1",
    "credit_card": "enforced by the declared domain: the largest norm of a row, "
    "residuals being below 1",
    "medical_cost": "enforced: residuals are clipped to the range of the label, times "
    "twice the largest norm of a row",
    "network": "enforced: every record's gradient is clipped to it",
}
_NOTES = {
    "synthetic": "Features are used as drawn, without intercept, cut at three "
    "deviations (E24); leakage by the recipe of appendix D.1.",
    "adult": "Numbers in [0, 1], 31 columns, no intercept, 45,175 rows.",
    "credit_card": "The paper does not state how numbers are scaled. In [0, 1] its "
    "2,000 steps of 0.005 leave every method at the majority class (77.9 %), so "
    "numbers are in [-1.73, 1.73], unit variance if uniform.",
    "medical_cost": "1,000 rows, the appendix's roles (E22), 11 columns because no "
    "level of a one-hot code is dropped, label cut at 50,000 dollars.",
    "sepsis": "Balanced by SMOTENC and ENN with ties broken at random (E23), then "
    "10,000 rows, about half of them survivors. Default SMOTEENN breaks ties by row "
    "number and removes nearly all deaths.",
}
_SHOWN = (0.1, 0.3, 1.0, 10.0)


def findings_page(results: Results, *, figures: str = "", quick: bool = False) -> str:
    """Return the page in Markdown."""
    lines = ["# The paper's experiments, run again", ""]
    if quick:
        lines += [
            "**A rehearsal** on small tables with few steps and seeds: verdicts below "
            "show that the checks run, not what is true.",
            "",
        ]
    lines += [
        "Left panels, `theorem`: the paper's noise, variance C (log(1/delta) + 1) / "
        "epsilon^2 times TV(i), with C = L^2 T / n^2. Right panels, `certified`: this "
        "library's estimators with their defaults, where epsilon is proved. Bands are "
        "one standard deviation over seeds. Semi promises nothing about insensitive "
        "features: its certified curve is proved for sensitive ones alone, its "
        "theorem curve for nothing. Numbers E1, E2, ... are known errata of the paper.",
        "",
        "Methods are compared seed by seed on the same draws: one is better where the "
        "mean difference exceeds two standard errors. Close means within 0.01 of R "
        "squared, or within one point of accuracy. Where training takes long the "
        "certified curves have four points.",
        "",
        "## Findings",
        "",
        "Each sentence of the paper, and what was measured.",
        "",
        *_findings(results, FINDINGS),
        "",
        "## The same proof, not the same formula",
        "",
        "At one nominal epsilon the methods prove different epsilons. Where standard "
        "is given the epsilon that corr really proves, is corr still better?",
        "",
        *_findings(results, EQUAL_PROOF),
    ]
    for experiment in results.experiments.values():
        lines += ["", *_section(results, experiment, figures)]
    return "\n".join(lines) + "\n"


def _findings(results: Results, findings: Sequence[Finding]) -> list[str]:
    lines = []
    for finding in available(results, findings):
        lines.append(f"> {finding.quote}")
        lines.append("")
        failed = False
        for calibration in finding.calibrations:
            outcome = finding.check(results, calibration)
            failed |= outcome.verdict is not Verdict.HOLDS
            lines.append(
                f"- {calibration.value}: **{outcome.verdict.value}**. "
                f"{outcome.numbers[0].upper()}{outcome.numbers[1:]}."
            )
        if failed and finding.reason:
            lines.append(f"- Why: {finding.reason}")
        lines.append("")
    return lines or ["None of the experiments behind them was run.", ""]


def _section(results: Results, experiment: Experiment, figures: str) -> list[str]:
    name = experiment.name
    folder = f"{figures}/" if figures else ""
    printed = results.panel(name, Calibration.THEOREM)
    certified = results.panel(name, Calibration.CERTIFIED)
    first = printed.cell("corr", experiment.epsilons[0])
    assert first.constant is not None  # every curve of the paper's noise has one
    kind = "network" if experiment.model is Model.NETWORK else experiment.data
    lines = [
        f"## {experiment.title}",
        "",
        f"![Gap against epsilon, {experiment.title}]({folder}{name}.svg)",
        "",
        f"Step {experiment.step_size:g}, {experiment.n_steps:,} steps, delta "
        f"{experiment.delta:g}; L = {first.lipschitz:.4g}, C = {first.constant:.3g}. "
        f"L is {_BOUNDS[kind]}. {_NOTES[experiment.data]} Without noise: "
        f"{experiment.metric} {printed.plain():.4f} by the paper's descent, "
        f"{certified.plain():.4f} by the library.",
        "",
        "| epsilon | method | theorem | proves | certified |",
        "|---|---|---|---|---|",
    ]
    shown = [e for e in experiment.epsilons if e in _SHOWN] or experiment.epsilons
    for epsilon in shown:
        for method in PRIVATE_METHODS:
            proof = printed.cell(method, epsilon).provable_epsilon
            proves = "nothing" if math.isinf(proof) else f"{proof:.3g}"
            was_run = epsilon in certified.epsilons
            lines.append(
                f"| {epsilon:g} | {method} | {_number(printed, method, epsilon)} | "
                f"{proves} | "
                f"{_number(certified, method, epsilon) if was_run else 'not run'} |"
            )
    return lines


def _number(panel: Panel, method: str, epsilon: float) -> str:
    scores = panel.scores(method, epsilon)
    return f"{float(scores.mean()):.4f} ± {deviation(scores):.4f}"
