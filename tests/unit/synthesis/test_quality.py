"""Quality of synthetic tables: paid, with a radius that holds."""

import numpy as np
import pytest

from corrdp.exceptions import BudgetError, CorrDPError
from corrdp.ledger import Ledger
from corrdp.policy import Budget
from corrdp.synthesis import Synthesizer, _quality
from synthesis_examples import POLICY, patients

COLUMNS = [("town",), ("illness", "returned"), ("age", "insured")]


@pytest.fixture(scope="module")
def fitted():
    maker = Synthesizer(POLICY, epsilon=3.0, delta=1e-6, random_state=0)
    return maker.fit(patients())


def true_error(fitted, columns, codes, drawn):
    table = fitted.plan_.columns
    places = [table.names.index(name) for name in columns]
    sizes = [table.sizes[place] for place in places]
    shares = []
    for rows in (codes, drawn):
        cells = np.ravel_multi_index(tuple(rows[:, p] for p in places), sizes)
        shares.append(np.bincount(cells, minlength=int(np.prod(sizes))) / len(rows))
    return 0.5 * np.abs(shares[0] - shares[1]).sum()


def test_the_error_lies_within_its_radius(fitted):
    found = fitted.quality(patients(), COLUMNS, epsilon=0.5, delta=1e-6, random_state=3)
    table = fitted.plan_.columns
    drawn = fitted.sample(100_000, random_state=3)
    codes = table.codes(patients()), table.codes(drawn)
    for part in found.tables:
        truth = true_error(fitted, part.columns, *codes)
        assert abs(part.error - truth) <= part.radius + 1e-9
        assert part.radius < 0.5
    assert found.certificate.epsilon <= 0.5
    assert "illness x returned" in found.to_text()


def test_more_budget_means_a_smaller_radius(fitted):
    radii = [
        fitted.quality(patients(), COLUMNS[:1], epsilon=e, delta=1e-6).tables[0].radius
        for e in (0.1, 1.0)
    ]
    assert radii[1] < radii[0]


def test_a_ledger_pays_and_refuses(fitted, tmp_path):
    account = Ledger.create(
        tmp_path / "ledger.db", POLICY, budget=Budget(epsilon=1.0, delta=2e-6)
    )
    asked = {"epsilon": 0.5, "delta": 1e-6, "ledger": account}
    assert fitted.quality(patients(), COLUMNS, **asked).receipt is not None
    with pytest.raises(BudgetError):
        fitted.quality(patients(), COLUMNS, **asked)


def test_private_counts_are_read_by_queries_alone(fitted, monkeypatch):
    """With the answers given, the private table is not looked at."""
    asked = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    table, seen = object(), []
    answers = _quality.answer_queries(
        patients(), fitted.policy_, ["count() by town"], **asked
    )

    def recorded(rows, *_, **__):
        seen.append(rows)
        return answers

    monkeypatch.setattr(_quality, "answer_queries", recorded)
    found = fitted.quality(table, COLUMNS[:1], **asked)
    assert seen == [table]
    assert found.certificate is answers.certificate


def test_no_columns_are_refused(fitted):
    with pytest.raises(CorrDPError, match="at least one"):
        fitted.quality(patients(), [], epsilon=1.0, delta=1e-6)
