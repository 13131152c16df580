"""Frequent texts of a column, read back from noisy counts of their bits, paid for.

Nobody can list the texts that a column may hold, so there is no table of them to count.
Instead every text is dealt to a bucket by a public hash, and in every bucket the bits
of the texts are counted. Where one text outweighs the others of its bucket by more than
the noise, its bits are the majority; a checksum tells a text from a mixture.
Theory: ``docs/theory/queries.md``.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from corrdp._typing import IntArray
from corrdp.policy import Policy
from corrdp.queries._columns import ExtendedTable
from corrdp.queries._estimates import Estimate
from corrdp.queries._metrics import ModelMetric
from corrdp.queries._moments import Moment
from corrdp.queries._query import Estimates, Labeled
from corrdp.tables import canonical_text, read_columns

LONGEST = 32
"""Bytes of the longest text that can be found; longer ones count as other."""

N_BUCKETS = 256
_CHECK_BYTES = 2
_CERTAIN = 1.5  # reaches: a difference of two counts has the square root of two of one
N_BITS = 8 * (LONGEST + _CHECK_BYTES)


@dataclass(frozen=True)
class SketchMoment(Moment):
    """Rows by bucket, place of a bit, and bit."""

    column: str = ""

    @property
    def name(self) -> str:
        """Name shown in plans."""
        return f"bits of {self.column}"

    @property
    def columns(self) -> frozenset[str]:
        """The one column that is read."""
        return frozenset({self.column})

    def cells(self, policy: Policy) -> tuple[tuple[str, ...], ...]:
        """Return the coordinates, without names of their own."""
        return ((),) * (N_BUCKETS * N_BITS * 2)

    def movement(self, policy: Policy, changed: frozenset[str]) -> tuple[int, int]:
        """Bound the movement under a change of some columns of one row.

        Guarantee
        ---------
        A row adds one to one coordinate for every place of a bit, so it moves two of
        them per place, by one each (``docs/theory/queries.md``).
        """
        moved = 2 * N_BITS if self.column in changed else 0
        return moved, moved

    def evaluate(self, policy: Policy, table: Any) -> IntArray:
        """Return the exact counts; a missing or long text counts for nothing."""
        if isinstance(table, ExtendedTable):
            table = table.table
        (cells,) = read_columns(table, [self.column])
        counts = np.zeros((N_BUCKETS, N_BITS, 2), dtype=np.int64)
        places = np.arange(N_BITS)
        for text, times in Counter(map(canonical_text, cells)).items():
            if text and (bits := bits_of(text)) is not None:
                counts[bucket_of(text), places, bits] += times
        return counts.reshape(-1)


@dataclass(frozen=True)
class FrequentTexts(ModelMetric):
    """The texts that many rows of a column hold, and how many do, roughly."""

    column: str

    @property
    def text(self) -> str:
        """The question in words."""
        return f"frequent texts of {self.column}"

    def weight(self, moment: Moment) -> float:
        """Return as much for all buckets as for one count."""
        return 1.0 / (2 * N_BUCKETS)

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The column itself."""
        return (self.column,)

    def moments(self, policy: Policy) -> tuple[Moment, ...]:
        """Return the counts of bits."""
        policy.feature(self.column)
        return (SketchMoment((), column=self.column),)

    def answer(self, policy: Policy, n_rows: int, estimates: Estimates) -> Labeled:
        """Return the texts whose every bit is certain, the most frequent first.

        A bit is certain if one of its two counts exceeds the other by more than noise
        reaches; then it is the bit of most rows of the bucket. How many rows hold the
        text is not enclosed: others of the bucket share bits with it.
        """
        (moment,) = self.moments(policy)
        shape = (N_BUCKETS, N_BITS, 2)
        values = np.array([e.value for e in estimates[moment]]).reshape(shape)
        reach = max(e.radius for e in estimates[moment])
        found: Labeled = []
        for bucket, counts in enumerate(values):
            gap = counts[:, 1] - counts[:, 0]
            if np.abs(gap).min() <= _CERTAIN * reach:
                continue
            text = text_of((gap > 0).astype(np.int64))
            if text is None or bucket_of(text) != bucket:
                continue
            rows = float(counts.max(axis=1).mean())
            found.append(((text,), Estimate(rows, 0.0, n_rows)))
        return sorted(found, key=lambda item: (-item[1].value, item[0]))


def bucket_of(text: str) -> int:
    """Return the bucket of a text: a public function of it."""
    return _digest(b"bucket", text)[0]


def bits_of(text: str) -> IntArray | None:
    """Return the bits of a text and its checksum; None if it is too long."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) > LONGEST:
        return None
    whole = raw.ljust(LONGEST, b"\0") + _digest(b"check", text)[:_CHECK_BYTES]
    return np.unpackbits(np.frombuffer(whole, dtype=np.uint8)).astype(np.int64)


def text_of(bits: IntArray) -> str | None:
    """Return the text that the bits are of; None if their checksum is not its own.

    Examples
    --------
    >>> text_of(bits_of("night guard"))
    'night guard'
    """
    whole = np.packbits(bits.astype(np.uint8)).tobytes()
    raw, check = whole[:LONGEST].rstrip(b"\0"), whole[LONGEST:]
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if not text or not text.isprintable() or text != text.strip():
        return None
    return text if _digest(b"check", text)[:_CHECK_BYTES] == check else None


def _digest(purpose: bytes, text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=8, person=purpose).digest()
