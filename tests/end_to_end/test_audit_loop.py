"""The audit attacks the loop that trains: bugs planted into it are found."""

import pytest
import torch

from corrdp.auditing import audit, loop_challenges
from corrdp.auditing._challenge import Deadline
from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.torch import make_private
from loop_bugs import LOOP_BUGS, SAMPLED, a_training, squared_error

pytestmark = [pytest.mark.torch, pytest.mark.statistical]

GROSS = ("noise used twice", "reference without noise", "backward unclipped")
N_COMPARISONS = 100  # the error of one per cent is shared among all audits here


def audited(subject, **settings):
    return audit(subject, n_comparisons=N_COMPARISONS, random_state=7, **settings)


@pytest.mark.parametrize("settings", [{}, SAMPLED], ids=["full", "sampled"])
def test_the_loop_is_sound(settings):
    report = audited(a_training(**settings), n_runs=100, time_limit=20.0)
    assert report.passed
    names = {result.class_name for result in report.results}
    assert {"sensitive", "insensitive:x0", "whole_record"} <= names
    assert {result.target for result in report.results} == {"training loop, white box"}


def test_a_class_is_sound_in_as_many_runs_as_show_missing_noise():
    challenges = loop_challenges(
        a_training(), class_names=("sensitive",), n_runs=400, deadline=Deadline(10.0)
    )
    assert audited(challenges).passed


def is_caught(name, monkeypatch):
    plant, settings, class_name, n_runs = LOOP_BUGS[name]
    plant(monkeypatch)
    challenges = loop_challenges(
        a_training(**settings), class_names=(class_name,), n_runs=n_runs
    )
    return not audited(challenges).passed


@pytest.mark.parametrize("name", [name for name in LOOP_BUGS if name in GROSS])
def test_bugs_of_the_loop_are_caught(name, monkeypatch):
    assert is_caught(name, monkeypatch)


@pytest.mark.parametrize("name", [name for name in LOOP_BUGS if name not in GROSS])
def test_slight_bugs_of_the_loop_are_caught(name, monkeypatch):
    assert is_caught(name, monkeypatch)


def test_records_of_the_search_are_neighbors_of_their_class():
    for challenge in loop_challenges(a_training(), deadline=Deadline(5.0)):
        (first, one), (second, other) = challenge.first, challenge.second
        assert (one == other).all()  # labels are public
        rows, columns = (first != second).nonzero()
        assert set(rows) == {0}
        changed = {"s" if c == 0 else f"x{c - 1}" for c in columns}
        allowed = {
            "sensitive": {"s"},
            "whole_record": {"s", "x0", "x1", "x2", "x3"},
        }.get(challenge.class_name, {challenge.class_name.partition(":")[2]})
        assert changed
        assert changed <= allowed
        assert abs(first).max() <= 0.5
        assert abs(second).max() <= 0.5


def test_a_training_that_began_or_has_one_step_is_refused():
    training = a_training()
    training.module.backward(*next(iter(training.loader)))
    with pytest.raises(GuaranteeVoidError, match="taken 1 steps"):
        audit(training)
    with pytest.raises(CorrDPError, match="one step"):
        audit(a_training(n_steps=1))


def test_rows_that_are_no_codes_are_not_audited():
    """Cast to whole numbers, all made-up records would be the same."""
    policy = a_training().module.terms.policy
    network = torch.nn.Sequential(
        torch.nn.Embedding(5, 3), torch.nn.Flatten(), torch.nn.Linear(15, 1)
    )
    training = make_private(
        network,
        torch.optim.SGD(network.parameters()),
        (torch.randint(0, 5, (8, 5)), torch.rand(8)),
        loss=squared_error,
        policy=policy,
        epsilon=1.0,
        delta=1e-5,
        epochs=2,
        method="standard",
    )
    with pytest.raises(CorrDPError, match="makes records of the 5 columns"):
        audit(training)
