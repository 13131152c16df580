"""Error of a synthetic table on tables of counts, paid for like any other question."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from corrdp._typing import IntArray
from corrdp.certificate import Certificate, LeakageClaim
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.ledger import Ledger, Receipt, require_recorded
from corrdp.queries import Answer, Count, answer_queries

if TYPE_CHECKING:
    from corrdp.synthesis._synthesizer import Synthesizer

_LEAST_SAMPLE = 100_000


@dataclass(frozen=True)
class TableError:
    """How far the synthetic rows are from the private ones on one table of counts.

    `error` is the total variation distance to the *noisy* private counts: noise makes
    it larger. The distance to the private counts lies within `radius` of it.
    """

    columns: tuple[str, ...]
    error: float
    radius: float


@dataclass(frozen=True, eq=False)
class Quality:
    """Errors of several tables, what they prove, and the payment."""

    tables: tuple[TableError, ...]  # in the order that was asked for
    probability: float  # with which all radii hold at once
    certificate: Certificate  # of what was released to measure them
    receipt: Receipt | None  # of the ledger, if one was given

    def to_text(self) -> str:
        """Return one line per table."""
        lines = [
            f"{' x '.join(t.columns):<40}  {t.error:.4f}  +- {t.radius:.4f}"
            for t in self.tables
        ]
        lines.append(
            f"(total variation; all within their radius with probability "
            f"{self.probability:g}; epsilon {self.certificate.epsilon:.6g}, delta "
            f"{self.certificate.delta:g})"
        )
        return "\n".join(lines)


def measure_quality(
    maker: "Synthesizer",
    table: Any,
    columns: Sequence[Sequence[str]],
    *,
    epsilon: float,
    delta: float,
    ledger: Ledger | None = None,
    accept_new_data: bool = False,
    random_state: int | None = None,
) -> Quality:
    """Measure the error on some tables of counts.

    Asks for the private counts of some columns and compares the synthetic ones: what is
    read of the private table is paid for.

    Parameters
    ----------
    maker : Synthesizer
        Fitted.
    table : table
        The private rows.
    columns : sequence of sequence of str
        One table of counts each; numbers need declared bins.
    epsilon, delta : float
        Budget of all of them together, on top of what the synthetic table cost.
    ledger, accept_new_data, random_state
        As in `answer_queries`.

    Guarantee
    ---------
    Private counts are read through `answer_queries` alone, and priced by it; the rest
    is post-processing. If every noisy count is within its radius, half the sum of the
    radii bounds how far `error` is off, by the triangle inequality
    (`docs/theory/synthesis.md`, section 7).
    """
    _ = maker.pairs_  # refuses one that is not fitted, before anything is paid
    if not columns:
        raise CorrDPError("columns is empty. Name at least one table of counts.")
    questions = [Count(by=tuple(own)) for own in columns]
    leakage = maker.certificate_.leakage if maker.policy_.insensitive else None
    if ledger is not None:
        _introduce(ledger, maker, leakage)
    released = answer_queries(
        table,
        maker.policy_,
        questions,
        epsilon=epsilon,
        delta=delta,
        leakage=leakage,
        ledger=ledger,
        accept_new_data=accept_new_data,
        random_state=random_state,
    )
    n_rows = released.plan.n_rows
    drawn = maker.sample(max(n_rows, _LEAST_SAMPLE), random_state=random_state)
    tables = []
    for own, question, noisy in zip(columns, questions, released.answers, strict=True):
        (moment,) = question.moments(maker.policy_)
        made = moment.evaluate(maker.policy_, drawn)  # of synthetic rows: free
        tables.append(_error(tuple(own), noisy, made, n_rows))
    return Quality(
        tuple(tables),
        released.answers[0].probability,
        released.certificate,
        released.receipt,
    )


def _introduce(
    ledger: Ledger, maker: "Synthesizer", leakage: LeakageClaim | None
) -> None:
    """Let a ledger know the policy, if it has paid for what its distances cost."""
    if leakage is not None and leakage.source == "private":
        if maker.leakage is None:
            raise GuaranteeVoidError(
                "the leakage of the synthesizer was released from private rows, and "
                "the ledger cannot see by which release. Set its `leakage` to the "
                "leakage table."
            )
        require_recorded(ledger, maker.leakage)
    ledger.introduce(
        maker.policy_,
        leakage=None if leakage is None else leakage.distances(maker.policy_),
    )


def _error(
    columns: tuple[str, ...], noisy: Answer, made: IntArray, n_rows: int
) -> TableError:
    shares = np.array(noisy.values) / n_rows - made / made.sum()
    return TableError(
        columns, 0.5 * float(np.abs(shares).sum()), 0.5 * sum(noisy.radii) / n_rows
    )
