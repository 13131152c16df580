"""One answer of every partition counts, whatever an engine does to replies."""

import math
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from corrdp.engines import Failed, HostedParts, is_hosted
from corrdp.estimators import (
    AdditiveClassifier,
    LinearRegression,
    MLPClassifier,
    PrivateSearchCV,
    _promises,
    sweep,
)
from corrdp.exceptions import BudgetError, CorrDPError, GuaranteeVoidError, PolicyError
from corrdp.leakage import _coding as hosted_counts
from corrdp.leakage import count_codes, estimate_leakage
from corrdp.leakage._coding import iter_codes
from corrdp.leakage._targets import count_layout, leakage_targets
from corrdp.ledger import Ledger
from corrdp.policy import (
    Budget,
    CategoryDomain,
    Label,
    NumberDomain,
    Policy,
    PolicyEncoder,
)
from corrdp.queries import answer_queries
from corrdp.synthesis import Synthesizer
from corrdp.training import CONSTANT, HostedTable, tiled_part
from engine_examples import (
    SUMS_DIGEST,
    HeldTable,
    HereEngine,
    bits,
    digest,
    register,
    sums_digest,
)
from linear_model_examples import (
    example_frame,
    example_policy,
    model_of,
    regression_frame,
    regression_policy,
)
from recorded_noise import RecordedGenerator

FRAME = example_frame(1500)
STEPS = 4


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    register(monkeypatch)


def _held(cuts=(0, 400, 400, 1100, 1500), frame=FRAME, **options):
    parts = [frame[a:b] for a, b in pairwise(cuts)]
    return HeldTable(parts, **options)


def _fitted(rows, **options):
    """Fit with the bounds of the policy: rows are made into tiles once, and asked."""
    options = {"n_steps": STEPS, "bounds": "declared"} | options
    return model_of(**options).fit(rows)


@pytest.fixture(scope="module")
def expected():
    return bits(_fitted(FRAME))


def test_the_type_of_a_table_says_who_holds_it():
    assert is_hosted(_held())
    assert not is_hosted(FRAME)
    assert not is_hosted("table/")


@pytest.mark.parametrize("order", ["as they are", "backwards"])
def test_no_cut_and_no_order_of_the_rows_changes_the_model(order, expected):
    frame = FRAME if order == "as they are" else FRAME[::-1]
    closed = HereEngine.closed
    for cuts in ((0, 1500), (0, 1, 1499, 1500), (0, 400, 400, 1100, 1500)):
        assert bits(_fitted(_held(cuts, frame))) == expected
    assert HereEngine.closed == closed + 3


def test_bounds_of_numbers_are_found_in_parts():
    features = tuple(
        replace(feature, domain=replace(feature.domain, lower=-2000, upper=2000))
        if isinstance(feature.domain, NumberDomain)
        else feature
        for feature in example_policy().features
    )
    policy = replace(example_policy(), features=features)
    here, held = (
        model_of(policy=policy, n_steps=STEPS, epsilon=5.0).fit(rows)
        for rows in (FRAME, _held())
    )
    assert held.policy_ == here.policy_ != policy
    assert bits(held) == bits(here)


@pytest.mark.parametrize(
    "options",
    [{}, {"loss": "huber", "huber_threshold": 0.2}, {"solver": "svrg"}],
    ids=["squared", "huber", "svrg"],
)
def test_numbers_are_learned_in_parts(options):
    frame = regression_frame()[:1200]
    options = options | {"epsilon": 1.0, "delta": 1e-6, "random_state": 0}
    models = [
        LinearRegression(regression_policy(), n_steps=STEPS, **options).fit(rows)
        for rows in (frame, _held((0, 500, 1200), frame))
    ]
    assert bits(models[0]) == bits(models[1])


def test_three_labels_and_constants_are_learned_in_parts():
    frame = FRAME.assign(rich=np.array(["a", "b", "c"])[np.arange(len(FRAME)) % 3])
    policy = example_policy()
    three = Label("rich", CategoryDomain(("a", "b", "c")), score=1.0)
    for label, epsilon in ((three, 1.0), (three, 1e-3), (policy.label, 1e-3)):
        rows = frame if label is three else FRAME
        models = [
            model_of(
                Policy(policy.features, replace(label, score=1.0)),
                epsilon=epsilon,
                n_steps=STEPS,
            )
            for _ in range(2)
        ]
        with pytest.warns() if epsilon < 1 else nullcontext():
            for model, source in zip(models, (rows, _held(frame=rows)), strict=True):
                model.fit(source)
        assert bits(models[0]) == bits(models[1])
        assert (models[1].plan_.noise == CONSTANT) == (epsilon < 1)
        assert models[1].classes_.tolist() == list(label.domain.categories)


def test_a_repeated_and_a_late_reply_count_once(expected):
    kept = []

    def trouble(step, replies):
        earlier = list(kept)
        kept.extend(replies)
        return [*earlier, *replies, *replies]  # late ones first, then each twice

    assert bits(_fitted(_held(trouble=trouble))) == expected


def test_column_sums_tell_nothing_of_the_order_of_partitions():
    numbers = (0.1, 0.2, 0.3)
    assert sum(numbers) != sum(reversed(numbers))  # in floats
    blocks = PolicyEncoder(Policy(example_policy().features[:1])).blocks_
    parts = [
        tiled_part(
            [(np.array([[number]]), np.zeros(1))], blocks, compiled=False, key=b"k"
        )
        for number in numbers
    ]
    for held in (parts, parts[::-1]):
        table = HostedTable(
            lambda question, held=held: [question.answer(part) for part in held],
            blocks,
            compiled=False,
        )
        assert table.totals.sums.tolist() == [math.fsum(numbers)]


@pytest.mark.parametrize("lost", [3, 4, 2 + STEPS])
def test_a_lost_partition_is_no_zero(lost):
    def trouble(step, replies):
        return replies[1:] if step == lost else replies

    with pytest.raises(CorrDPError, match="1 of 4 partitions did not answer"):
        _fitted(_held(trouble=trouble))


def test_noise_is_drawn_by_the_driver_once_per_step(monkeypatch, expected):
    drawn = []
    for rows in (FRAME, _held()):
        rng = RecordedGenerator(0)
        monkeypatch.setattr(_promises, "noise_generator", lambda state, rng=rng: rng)
        _fitted(rows)
        drawn.append([(name, numbers.shape) for name, numbers in rng.taken()])
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 1 + STEPS  # means once, then one draw per step


def test_a_partition_that_is_made_again_must_have_its_rows(expected):
    first, second = FRAME[:400], FRAME[400:]
    again = {3: {0: first[::-1]}}  # in another order
    assert bits(_fitted(HeldTable([first, second], remade=again))) == expected
    again = {3: {0: FRAME[1:401]}}
    with pytest.raises(GuaranteeVoidError, match="other rows than before"):
        _fitted(HeldTable([first, second], remade=again))


def test_counts_that_are_made_again_must_be_what_they_were():
    first, second = FRAME[:400], FRAME[400:]
    for rows, told in ((first[::-1], None), (FRAME[1:401], "other rows than before")):
        held = HeldTable([first, second], remade={1: {0: rows}})
        with pytest.raises(GuaranteeVoidError, match=told) if told else nullcontext():
            estimate_leakage(held, _binned(), epsilon=1.0, delta=1e-6)
        with pytest.raises(GuaranteeVoidError, match=told) if told else nullcontext():
            answer_queries(held, _binned(), ["count() by city"], epsilon=1.0)


def test_a_charge_comes_before_any_sum():
    asked = []

    def trouble(step, replies):
        asked.append(step)
        return replies

    def refuse(certificate):
        raise BudgetError("no")

    with pytest.raises(BudgetError, match="no"):
        model_of(n_steps=STEPS).fit(_held(trouble=trouble), charge=refuse)
    assert asked == [0, 1]  # marks, and how many rows there are, which is public


class TestPoisonedRow:
    MARKER = "M4RK3R"

    def _told(self, caught, caplog, capfd):
        error, seen = caught.value, []
        while error is not None:
            seen += [repr(error), str(error), str(vars(error))]
            error = error.__cause__ or error.__context__
        return "".join((*seen, caplog.text, *capfd.readouterr()))

    @pytest.mark.parametrize("column", ["age", "sex", "city", "rich"])
    def test_a_refused_cell_is_told_by_its_column(self, column, caplog, capfd):
        frame = FRAME.astype({"age": object})
        frame.loc[700, column] = self.MARKER
        with pytest.raises(PolicyError) as caught:
            _fitted(_held(frame=frame))
        assert f"the column {column!r} (PolicyError)" in str(caught.value)
        assert self.MARKER not in self._told(caught, caplog, capfd)

    def test_any_other_error_is_told_by_its_kind(self, monkeypatch, caplog, capfd):
        def fail(self, table):
            raise KeyError(f"a row: {TestPoisonedRow.MARKER}")

        monkeypatch.setattr("corrdp.estimators._rows.PartTiler.__call__", fail)
        with pytest.raises(CorrDPError) as caught:
            _fitted(_held())
        assert "a worker failed (KeyError)" in str(caught.value)
        assert self.MARKER not in self._told(caught, caplog, capfd)

    def test_an_engine_that_fails_is_told_by_the_kind(self, caplog, capfd):
        def trouble(step, replies):
            raise RuntimeError(f"a row: {TestPoisonedRow.MARKER}")

        with pytest.raises(CorrDPError) as caught:
            _fitted(_held(trouble=trouble))
        assert "the engine failed (RuntimeError)" in str(caught.value)
        assert self.MARKER not in self._told(caught, caplog, capfd)

    def test_a_class_made_from_ours_is_none_of_ours(self, caplog, capfd):
        class RayTaskError(CorrDPError):  # as Ray makes them
            pass

        def trouble(step, replies):
            raise RayTaskError(f"a row: {TestPoisonedRow.MARKER}")

        with pytest.raises(CorrDPError, match=r"failed \(RayTaskError\)") as caught:
            _fitted(_held(trouble=trouble))
        assert self.MARKER not in self._told(caught, caplog, capfd)

    def test_names_of_a_lazy_table_are_told_by_kind(self, monkeypatch, caplog, capfd):
        def fail(self):
            raise RuntimeError(f"a row: {TestPoisonedRow.MARKER}")

        monkeypatch.setattr(HeldTable, "columns", property(fail))
        with pytest.raises(CorrDPError, match=r"failed \(RuntimeError\)") as caught:
            _fitted(_held())
        assert self.MARKER not in self._told(caught, caplog, capfd)


def _binned():
    age, *others = example_policy().features
    return replace(
        example_policy(),
        features=(replace(age, domain=NumberDomain(0, 100, bins=8)), *others),
    )


def test_counts_of_parts_are_those_of_the_table():
    policy = _binned()
    layout = count_layout(policy, leakage_targets(policy))
    whole = count_codes(iter_codes(FRAME, policy, layout.features), layout)
    held = hosted_counts.hosted_counts(_held(), policy, layout)
    assert digest(held) == digest(whole)
    for rows in (FRAME, _held(), _held((0, 700, 1500), FRAME[::-1])):
        assert sums_digest(rows) == SUMS_DIGEST
    options = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0, "research": True}
    tables = [
        estimate_leakage(rows, policy, **options).to_dict() for rows in (FRAME, _held())
    ]
    assert tables[0] == tables[1]
    with pytest.raises(PolicyError, match="Declare bins"):
        estimate_leakage(_held(), example_policy(), source="public", estimator="kernel")


def test_queries_are_summed_in_parts(tmp_path):
    policy = _binned()
    questions = ["mean(age)", "count() by city", "count()"]
    results = [
        answer_queries(rows, policy, questions, epsilon=1.0, random_state=0)
        for rows in (FRAME, _held())
    ]
    assert results[0].answers == results[1].answers
    ledger = Ledger.create(
        tmp_path / "l.ledger", policy, budget=Budget(epsilon=10, delta=1e-5)
    )
    with pytest.raises(BudgetError, match="rows in order"):
        answer_queries(_held(), policy, questions, epsilon=1.0, ledger=ledger)
    with pytest.raises(CorrDPError, match="quantiles='counts'"):
        answer_queries(
            _held(), policy, ["median(age)"], epsilon=1.0, quantiles="choice"
        )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"calibration": "theorem"}, "stays where it is"),
        ({"leakage": "auto"}, "stays where it is"),
        ({"cache_dir": "kept"}, "cache_dir keeps tiles of files"),
    ],
)
def test_what_needs_all_rows_at_once_is_refused(options, told):
    with pytest.raises(CorrDPError, match=told):
        _fitted(_held(), **options)


def test_curves_labels_and_columns_are_refused_by_name():
    with pytest.raises(CorrDPError, match="stays where it is"):
        AdditiveClassifier(example_policy(), epsilon=1.0, delta=1e-6).fit(_held())
    with pytest.raises(CorrDPError, match="Leave y out"):
        model_of().fit(_held(), FRAME["rich"])
    with pytest.raises(PolicyError, match="lacks the columns 'city'"):
        _fitted(_held(frame=FRAME.drop(columns="city")))
    with pytest.raises(CorrDPError, match="the table has no rows"):
        _fitted(_held((0, 0, 0)))


def _fingerprint(rows, directory):
    ledger = Ledger.create(
        directory / "l.ledger", example_policy(), budget=Budget(epsilon=1, delta=1e-6)
    )
    return ledger.fingerprint(rows)


def _searched(rows, _):
    search = PrivateSearchCV(model_of(), {"n_steps": [3, 5]}, epsilon=1.0, delta=1e-6)
    return search.fit(rows)


def _swept(rows, _):
    options = {"epsilons": [1], "delta": 1e-6, "research": True}
    return sweep(rows, policy=example_policy(), **options)


@pytest.mark.parametrize(
    ("work", "told"),
    [
        (_searched, "a search, .* Fit one setting there"),
        (lambda rows, _: _of(MLPClassifier).fit(rows), "a network .*make_private"),
        (lambda rows, _: _of(Synthesizer).fit(rows), "a synthesizer .* Bring the rows"),
        (lambda rows, _: _fitted(FRAME).predict(rows), "a prediction .* partition by"),
        (lambda rows, _: model_of().fit(FRAME, public_rows=rows), "a start from"),
        (_swept, "a sweep"),
        (_fingerprint, "a fingerprint, .* or pass the files"),
    ],
    ids=["search", "network", "synthesis", "predict", "public", "sweep", "ledger"],
)
def test_what_engines_cannot_do_says_what_to_do_instead(work, told, tmp_path):
    with pytest.raises(CorrDPError, match=told) as caught:
        work(_held(), tmp_path)
    assert "a HeldTable of engine_examples stays where it is" in str(caught.value)


def _of(kind):
    return kind(example_policy(), epsilon=1.0, delta=1e-6)


def test_research_counts_clipped_rows_in_parts():
    frame = FRAME.assign(age=np.where(np.arange(len(FRAME)) % 5 == 0, 200.0, FRAME.age))
    assert _fitted(_held(frame=frame), research=True).n_clipped_rows_ == 300


def test_all_workers_need_the_kernel_of_the_driver(monkeypatch):
    from corrdp.estimators import _rows

    tiled = _rows.tiled_part
    monkeypatch.setattr(
        _rows, "tiled_part", lambda *a, **o: replace(tiled(*a, **o), kernel="another")
    )
    with pytest.raises(CorrDPError, match="another kernel than this process"):
        _fitted(_held())


def test_a_partition_made_again_for_another_kernel_is_refused(monkeypatch):
    pytest.importorskip("numba", reason="else there is one kernel")
    from corrdp.training.kernels import _plain
    from corrdp.training.rows import _questions

    def trouble(step, replies):
        if step == 2:  # whoever makes the partition again has no numba
            monkeypatch.setattr(_questions, "_kernel", _plain)
        return replies

    rows = _held((0, 400, 1500), trouble=trouble, remade={3: {0: FRAME[:400]}})
    with pytest.raises(GuaranteeVoidError, match="other rows than before"):
        _fitted(rows)


def test_a_table_without_partitions_has_no_rows():
    closed = HereEngine.closed
    with pytest.raises(CorrDPError, match="the table has no rows"):
        HostedParts(HereEngine(HeldTable([])), None)
    assert HereEngine.closed == closed + 1


def test_a_failed_start_closes_the_engine():
    class Broken(HereEngine):
        def start(self, make):
            raise RuntimeError("M4RK3R")

    closed = Broken.closed
    with pytest.raises(CorrDPError, match=r"the engine failed \(RuntimeError\)"):
        HostedParts(Broken(pd.DataFrame()), None)
    assert Broken.closed == closed + 1
    assert Failed("KeyError").column is None
