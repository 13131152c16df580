"""Risk of a certificate: all components count, words are rounded up, scope is said."""

import math

import pytest
from scipy.stats import norm

from corrdp.accounting import WHOLE_RECORD, GaussianEvent
from corrdp.certificate import Component, LeakageClaim, certify
from corrdp.certificate._text import percent, rounded_up
from corrdp.exceptions import CorrDPError
from corrdp.policy import Budget, Policy

POLICY = Policy.from_toml(
    """
target = "ill"
relation = "one_insensitive"

[features.age]
role = "sensitive"
type = "number"
bounds = [17, 90]

[features.race]
role = "insensitive"
type = "category"
categories = ["a", "b", "c"]
leakage = 0.5

[features.sex]
role = "insensitive"
type = "category"
categories = ["a", "b"]
leakage = 0.5

[label]
type = "boolean"
score = 0.0
"""
)


def part(name, mu):
    cheap = {"sensitive": (GaussianEvent(mu),)}
    return Component(name, events=cheap | {WHOLE_RECORD: (GaussianEvent(2 * mu),)})


def issue(*parts):
    return certify(
        POLICY,
        parts,
        budget=Budget(epsilon=10.0, delta=1e-6),
        leakage=LeakageClaim.declared(POLICY),
    )


def test_risk_is_that_of_all_components_together():
    risk = issue(part("leakage", 0.3), part("training", 0.4)).risk("sensitive")
    assert risk.mu == pytest.approx(0.5)
    assert risk.true_positive_rate[0.01] == pytest.approx(
        norm.cdf(norm.ppf(0.01) + 0.5)
    )


def test_a_class_that_is_not_priced_pays_for_the_whole_record():
    certificate = issue(part("training", 0.4))
    assert certificate.risk("insensitive:race").mu == pytest.approx(0.8)


def test_an_unknown_class_is_refused():
    with pytest.raises(CorrDPError, match="sensitive, insensitive:race"):
        issue(part("training", 0.4)).risk("race")


def test_the_text_groups_equal_classes_and_says_what_it_does_not_say():
    text = " ".join(issue(part("training", 0.4)).to_text().split())
    equal = f"insensitive:race, insensitive:sex, {WHOLE_RECORD}: mu 0.8;"
    assert equal in text
    assert "sensitive: mu 0.4; advantage of any attack at most 15.9 %" in text
    assert "reveal about sensitive ones by correlation" in text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.123401, "0.124"),
        (0.5, "0.5"),
        (1.0, "1"),
        (0.000999, "0.000999"),
        (12.301, "12.4"),
        (0.0, "0"),
        (math.inf, "inf"),
    ],
)
def test_numbers_are_rounded_up(value, shown):
    assert rounded_up(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.01, "1 %"), (0.024251, "2.43 %"), (0.99971, "above 99.9 %"), (1.0, "100 %")],
)
def test_percentages_never_round_down_nor_up_to_certainty(value, shown):
    assert percent(value) == shown


def test_the_short_text_has_both_epsilons_and_the_risk_in_some_ten_lines():
    text = issue(part("training", 0.4)).to_short_text()
    assert len(text.splitlines()) <= 14
    joined = " ".join(text.split())
    assert "Protected as sensitive: 1 class, epsilon" in joined
    assert "Protected by leakage: 2 classes, epsilon" in joined
    assert "Whole record: epsilon" in joined
    assert "Risk, sensitive: mu 0.4" in joined
