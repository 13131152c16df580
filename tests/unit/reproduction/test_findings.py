"""Verdicts follow the numbers, and noise is not mistaken for a difference."""

import math

import numpy as np
import pytest

from corrdp.exceptions import CorrDPError
from corrdp.reproduction import EXPERIMENTS, Calibration, Cell, CellResult, Results
from corrdp.reproduction import _findings as findings
from corrdp.reproduction._findings import Finding, Verdict
from corrdp.reproduction._page import findings_page
from corrdp.reproduction._sentences import FINDINGS

THEOREM = Calibration.THEOREM
N_SEEDS = 20


def planted(score, *, name="adult", noise=0.001, proof=lambda method, epsilon: epsilon):
    """Return results whose means are `score(method, epsilon)`."""
    rng = np.random.default_rng(0)
    cells = {}
    for cell in EXPERIMENTS[name].cells(N_SEEDS):
        mean = score(cell.method, cell.epsilon)
        scores = tuple(float(s) for s in mean + noise * rng.normal(size=N_SEEDS))
        proved = proof(cell.method, cell.epsilon)
        cells[cell] = CellResult(scores, {"sensitive": proved}, proved, 1.0, 0.1)
    return Results(cells)


def checked(rule):
    """Return the check of a finding that is about Adult alone."""
    return Finding("Adult is as it is.", ("adult",), rule).check


def lead(amount, below=math.inf):
    """Return scores in which corr leads standard by an amount up to some epsilon."""

    def score(method, epsilon):
        return 0.8 + (amount if method == "corr" and epsilon <= below else 0.0)

    return score


def test_better_everywhere_somewhere_nowhere():
    check = checked(findings.outranks("corr", "standard"))
    assert check(planted(lead(0.01)), THEOREM).verdict is Verdict.HOLDS
    assert check(planted(lead(0.01, below=1.0)), THEOREM).verdict is Verdict.IN_PART
    assert check(planted(lead(-0.01)), THEOREM).verdict is Verdict.FAILS


def test_a_difference_within_the_noise_is_no_lead():
    check = checked(findings.outranks("corr", "standard"))
    outcome = check(planted(lead(0.0), noise=0.05), THEOREM)
    # ten fair comparisons at two standard errors: five wins have probability < 1e-5
    assert outcome.verdict is not Verdict.HOLDS
    assert int(outcome.numbers.split(" better at ")[1].split(" ")[0]) < 5


def test_close_means_not_far_behind():
    check = checked(findings.stays_close("corr", "semi"))
    assert check(planted(lead(-0.005)), THEOREM).verdict is Verdict.HOLDS
    assert check(planted(lead(0.2)), THEOREM).verdict is Verdict.HOLDS
    assert check(planted(lead(-0.02)), THEOREM).verdict is Verdict.FAILS
    assert check(planted(lead(-0.02, below=1.0)), THEOREM).verdict is Verdict.IN_PART


def test_the_gap_of_a_window_is_measured_from_training_without_noise():
    def score(method, epsilon):
        return 0.83 if method == "nonprivate" else 0.80

    check = checked(findings.gap_below(0.04, (0.2, 0.5)))
    assert check(planted(score), THEOREM).verdict is Verdict.HOLDS
    check = checked(findings.gap_below(0.02, (0.2, 0.5)))
    assert check(planted(score), THEOREM).verdict is Verdict.FAILS
    check = checked(findings.gap_below(0.04, (20.0, 50.0)))
    assert "no epsilon" in check(planted(score), THEOREM).numbers


def test_partial_is_beaten_or_not():
    def score(method, epsilon):
        return 0.79 if method == "partial" else 0.8

    check = checked(findings.outranks_partial("corr", "standard"))
    assert check(planted(score), THEOREM).verdict is Verdict.HOLDS
    assert check(planted(lead(0.1)), THEOREM).verdict is Verdict.IN_PART
    assert check(planted(lead(-0.1)), THEOREM).verdict is Verdict.FAILS


def test_the_lead_must_grow_with_privacy():
    check = checked(findings.grows_with_privacy)
    growing = planted(
        lambda m, e: 0.8 - (1 if m == "standard" else 0.5) * 0.1 / e, noise=0.0
    )
    shrinking = planted(lambda m, e: 0.8 + (m == "corr") * 0.01 * e, noise=0.0)
    assert check(growing, THEOREM).verdict is Verdict.HOLDS
    assert check(shrinking, THEOREM).verdict is Verdict.FAILS


def test_a_printed_baseline_is_compared():
    check = checked(findings.baseline_is(0.83))
    assert check(planted(lambda *_: 0.831), THEOREM).verdict is Verdict.HOLDS
    assert check(planted(lambda *_: 0.80), THEOREM).verdict is Verdict.FAILS


def test_a_lead_that_is_only_a_weaker_proof_disappears():
    """Corr scores as standard does at three times the epsilon, and proves that."""

    def score(method, epsilon):
        spent = 3 * epsilon if method == "corr" else epsilon
        return 0.8 + 0.01 * math.log(min(spent, 100.0))

    def proof(method, epsilon):
        return 3 * epsilon if method == "corr" else epsilon

    nominal = checked(findings.outranks("corr", "standard"))
    equal = checked(findings.outranks_at_equal_proof)
    honest = planted(score, proof=proof, noise=1e-3)
    assert nominal(honest, THEOREM).verdict is Verdict.HOLDS
    assert equal(honest, THEOREM).verdict is not Verdict.HOLDS
    # planted: a proof that is not weaker makes the lead real
    assert equal(planted(score), THEOREM).verdict is Verdict.HOLDS
    nothing = planted(score, proof=lambda *_: math.inf)
    assert "nothing is proved" in equal(nothing, THEOREM).numbers


def test_results_survive_saving():
    results = planted(lead(0.01), proof=lambda m, e: math.inf if m == "semi" else e)
    again = Results.from_json(results.to_json())
    for finding in findings.available(results, FINDINGS):
        for calibration in finding.calibrations:
            outcomes = [finding.check(one, calibration) for one in (again, results)]
            assert outcomes[0].verdict == outcomes[1].verdict
    assert findings_page(again) == findings_page(results)
    assert math.isinf(again.cell("adult", THEOREM, "semi", 1.0).provable_epsilon)


def test_results_are_tidy():
    results = planted(lead(0.01))
    header, first, *rest = results.to_csv().splitlines()
    assert header.startswith("experiment,calibration,method,epsilon,seed,score,metric")
    assert first.startswith("adult,theorem,corr,0.05,0,0.8")
    assert len(rest) + 1 == 64 * N_SEEDS


def test_an_absent_cell_is_named():
    cell = Cell(EXPERIMENTS["adult"], THEOREM, "corr", 1.0, 1)
    with pytest.raises(CorrDPError, match="hold no cell adult, theorem, semi"):
        Results({cell: CellResult((0.8,))}).panel("adult", THEOREM).scores("semi", 1.0)


def test_the_page_quotes_and_judges():
    page = findings_page(planted(lead(0.01)), quick=True)
    assert "> [CorrDP] even outperforms Semi (Adult)" in page
    assert "**holds**" in page
    assert "A rehearsal" in page
    assert "A rehearsal" not in findings_page(planted(lead(0.01)))
