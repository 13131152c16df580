"""An engine of this process that loses, repeats and delays; questions that kill.

`HeldTable` is known to `corrdp.engines` where a test registers it (`register`); real
engines are tested with `Deadly` questions, which end the worker that is asked.
"""

import hashlib
import os
import pickle
import signal
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pytest

from corrdp.engines import (
    HostedParts,
    _kinds,
    answered,
    asked_at,
    hosted_parts,
    is_hosted,
    made,
)
from corrdp.estimators._tiled import PartTiler
from corrdp.leakage import count_codes
from corrdp.leakage._coding import hosted_counts, iter_codes
from corrdp.leakage._targets import count_layout, leakage_targets
from corrdp.policy import NumberDomain, PolicyEncoder
from corrdp.training import (
    HostedTable,
    SampledBudget,
    descend_sampled,
    descend_sampled_tiled,
)
from corrdp.training._hosted import CodeSums
from corrdp.training._totals import add_exact, exact_sums
from descent_examples import example_plan, example_policy, example_rows
from linear_model_examples import example_policy as people_policy
from recorded_noise import RecordedGenerator

MARKER = "M4RK3R"
NAMED = r"a worker refused the column '(age|sex|city|rich)' \(PolicyError\)"


@dataclass
class HeldTable:
    """Partitions that a pretended engine holds, and what it does to replies."""

    parts: list
    trouble: object = staticmethod(lambda step, replies: replies)
    remade: dict = field(default_factory=dict)

    @property
    def columns(self):
        return list(self.parts[0].columns)


class HereEngine:
    """Hosts partitions in this process; everything passes through pickle."""

    closed = 0

    def __init__(self, table):
        self._table = table

    def start(self, make):
        make = pickle.loads(pickle.dumps(make))
        self._make, self._kept = make, [made(make, p) for p in self._table.parts]
        return len(self._kept)

    def replies(self, step, question):
        for place, rows in self._table.remade.get(step, {}).items():
            self._kept[place] = made(self._make, rows)
        question = pickle.loads(pickle.dumps(question))
        replies = [answered(p, i, step, question) for i, p in enumerate(self._kept)]
        yield from self._table.trouble(step, replies)

    def close(self):
        type(self).closed += 1


def register(monkeypatch):
    """Make `HeldTable` a table that is hosted."""
    monkeypatch.setitem(
        _kinds._ENGINES, f"{__name__}.HeldTable", lambda table, _: HereEngine(table)
    )


def bits(model):
    """Return the weights of a fitted model as bytes."""
    return np.append(model.coef_, model.intercept_).tobytes()


@dataclass(frozen=True, eq=False)
class Deadly:
    """A question that ends the worker that is asked it first, as kill -9 does.

    The file says whether that has happened, so that nothing depends on time.
    """

    question: object
    path: Path
    generations: int = 0  # whose process dies: its own, or that of an ancestor

    def at(self, place):
        return Deadly(asked_at(place, self.question), self.path, self.generations)

    def answer(self, part):
        try:
            self.path.touch(exist_ok=False)
        except FileExistsError:
            return self.question.answer(part)
        victim = os.getpid()
        for _ in range(self.generations):
            status = Path(f"/proc/{victim}/stat").read_text()
            victim = int(status.rpartition(")")[2].split()[1])
        os.kill(victim, signal.SIGKILL)
        raise OSError("an ancestor is dead, and nobody hears this")


def deadly_steps(monkeypatch, directory, steps, generations=0):
    """Let a worker die in the given questions, counted from 1; return what died."""
    ask = HostedParts.ask
    asked = [0]

    def deadly(self, question):
        asked[0] += 1
        if asked[0] in steps:
            path = Path(directory) / f"died-{asked[0]}"
            question = Deadly(question, path, generations)
        return ask(self, question)

    monkeypatch.setattr(HostedParts, "ask", deadly)
    return lambda: sorted(int(p.name.split("-")[1]) for p in directory.glob("died-*"))


def sampled_model(rows=None):
    """Return the bits of a sampled model of a few steps, and what was drawn.

    On the rows of `descent_examples` in memory, or where an engine holds them. The
    budget is given, since finding one takes long and is not what is tested.
    """
    plan = example_plan()
    promised = [c.name for c in plan.spending.classes if c.promised]
    budget = SampledBudget(0.1, 4, 0.5, dict.fromkeys(promised, 0.6))
    rng = RecordedGenerator(0)
    if rows is None:
        model = descend_sampled(*example_rows(), plan, budget, rng)
    else:
        make = PartTiler(example_policy(), compiled=False, key=b"k", in_order=True)
        with hosted_parts(rows, make) as parts:
            blocks = plan.layout.blocks
            table = HostedTable(parts.ask, blocks, compiled=False)
            model = descend_sampled_tiled(table, plan, budget, rng)
    drawn = [(name, numbers.tobytes()) for name, numbers in rng.taken()]
    return np.append(*model).tobytes(), drawn


def poisoned_frame(frame, row):
    """Return texts, and in one row a marker in every column."""
    frame = frame.astype(str)
    frame.iloc[row] = [f"{MARKER}-{name}" for name in frame.columns]
    return frame


def refused(work, kind, message):
    """Return all that a refusal tells and holds; nothing is chained to it."""
    with pytest.raises(kind, match=message) as caught:
        work()
    error, told = caught.value, []
    assert error.__cause__ is None
    assert error.__context__ is None
    for frame, _ in traceback.walk_tb(error.__traceback__):  # as a debugger shows it
        if frame.f_globals["__name__"].startswith("corrdp"):
            told.append(repr(frame.f_locals))
    assert told
    return "".join((*told, repr(error), str(error), str(vars(error))))


SUMS_DIGEST = "1e65b403470519e2"


def sums_digest(rows):
    """Return one hash of the exact counts and sums of codes of a table, wherever it is.

    `SUMS_DIGEST` is that of 1500 rows of `linear_model_examples`.
    """
    policy = binned_policy()
    layout = count_layout(policy, leakage_targets(policy))
    if is_hosted(rows):
        counts = hosted_counts(rows, policy, layout)
        with hosted_parts(rows, PartTiler(policy, compiled=False, key=b"k")) as parts:
            sums = [answer[0] for answer in parts.ask(CodeSums())]
    else:
        counts = count_codes(iter_codes(rows, policy, layout.features), layout)
        sums = [exact_sums(PolicyEncoder(policy).transform(rows))]
    held = f"{digest(counts)} {add_exact(sums).tolist()}"
    return hashlib.sha256(held.encode()).hexdigest()[:16]


def binned_policy():
    """Return the policy of `linear_model_examples`, with bins for its number."""
    age, *others = people_policy().features
    binned = replace(age, domain=NumberDomain(0, 100, bins=8))
    return replace(people_policy(), features=(binned, *others))


def quote_a_row(part):
    """Raise what a careless reader raises."""
    raise ValueError(f"a row: {MARKER}")


def digest(counts):
    """Return a hash of counted tables."""
    return hashlib.sha256(b"".join(t.tobytes() for t in counts.tables)).hexdigest()
