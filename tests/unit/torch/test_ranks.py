"""Training on two real processes that talk over loopback.

Each test starts one child process; the test itself is rank 0. Files carry the address,
so that no port can be taken.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist

from corrdp.exceptions import CorrDPError, GuaranteeVoidError
from corrdp.torch import _make_private
from unit.torch.networks import rows, small_network, train
from unit.torch.replaying import Recorder

N_ROWS = 24
FIRST_SHARD = 10
CASES = {
    "full": {"epochs": 2},
    "sampled": {"epochs": 1, "batch_size": 8},
    "reference": {"epochs": 2, "code_scale": np.ones(5)},
}
CHILD = "from unit.torch.test_ranks import serve; serve()"


def join(address, rank):
    dist.init_process_group(
        "gloo", init_method=f"file://{address}", rank=rank, world_size=2
    )


def part_of(rank, distributed="shards"):
    features, labels = rows(N_ROWS)
    if distributed == "copies":
        return features, labels
    own = slice(None, FIRST_SHARD) if rank == 0 else slice(FIRST_SHARD, None)
    return features[own], labels[own]


def training_of(rank, name, distributed="shards", data=None, **changes):
    network = small_network(seed=rank)  # rank 0 decides where all start
    arguments = {"fall_back": False} | CASES[name] | changes
    data = part_of(rank, distributed) if data is None else data
    return network, train(network, data, distributed=distributed, **arguments)


def second_rank(address, name, distributed, behaviour):
    """What the child process does in one test."""
    join(address, 1)
    data = part_of(0) if behaviour == "same rows" else None
    network, training = training_of(1, name, distributed, data)
    for batch in training.loader:
        if behaviour == "dies":
            os._exit(1)
        training.module.backward(*batch)
        training.optimizer.step()
    with pytest.raises(CorrDPError, match="Ask rank 0"):
        training.module.certificate()
    parameters = [p.detach() for p in network.parameters()]
    torch.save(parameters, f"{address}.parameters")


def serve():
    """Be rank 1 of one training after the other; importing torch takes seconds."""
    torch.set_num_threads(1)
    for line in sys.stdin:
        try:
            second_rank(*line.split("|")[:4])
            print("trained", flush=True)
        except CorrDPError as error:
            print(type(error).__name__, flush=True)
        finally:
            if dist.is_initialized():
                dist.destroy_process_group()


class Child:
    """A process that is rank 1, started when it is needed."""

    def __init__(self):
        self._process = None

    def ask(self, *words):
        if self._process is None or self._process.poll() is not None:
            self.close()
            path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
            self._process = subprocess.Popen(
                [sys.executable, "-c", CHILD],
                env=os.environ | {"PYTHONPATH": path, "GLOO_SOCKET_IFNAME": "lo"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        print(*words, "", sep="|", file=self._process.stdin, flush=True)

    def answer(self):
        return self._process.stdout.readline().strip()

    def close(self):
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


@pytest.fixture(scope="module")
def child():
    process = Child()
    yield process
    process.close()


@pytest.fixture
def pair(child, tmp_path, monkeypatch):
    """Start rank 1 and be rank 0."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    address = tmp_path / "address"

    def start(name, distributed="shards", behaviour="trains"):
        child.ask(address, name, distributed, behaviour)
        join(address, 0)
        return child

    start.address = address
    yield start
    if dist.is_initialized():
        dist.destroy_process_group()


def steps_of(training):
    gradients = []
    for batch in training.loader:
        training.module.backward(*batch)
        gradients.append([p.grad.clone() for p in training.module.parameters()])
        training.optimizer.step()
    return gradients


@pytest.mark.parametrize("name", CASES)
def test_two_processes_release_what_one_does(pair, monkeypatch, name):
    generators = []

    def recording(random_state, *, purpose=""):
        generators.append(Recorder(7))
        return generators[-1]

    monkeypatch.setattr(_make_private, "noise_generator", recording)
    features, labels = rows(N_ROWS)
    alone = small_network(seed=0)
    one = train(alone, (features, labels), fall_back=False, **CASES[name])
    expected = steps_of(one)

    child = pair(name)
    network, training = training_of(0, name)
    released = steps_of(training)
    assert child.answer() == "trained"

    n_steps = training.module.plan.noise.n_steps
    assert len(released) == len(expected) == n_steps > 1
    torch.testing.assert_close(released, expected)
    torch.testing.assert_close(list(network.parameters()), list(alone.parameters()))
    others = torch.load(f"{pair.address}.parameters")
    torch.testing.assert_close(others, [p.detach() for p in network.parameters()])
    # The same draws in the same order: one of noise per step, and one per sample.
    ours, theirs = (
        [(kind, values.shape) for kind, values in g.drawn] for g in reversed(generators)
    )
    assert ours == theirs
    certified = training.module.certificate()
    assert certified.epsilon == one.module.certificate().epsilon


def test_copies_are_shared_out(pair):
    child = pair("full", "copies")
    _, training = training_of(0, "full", "copies")
    assert len(training.loader.features) == N_ROWS // 2
    assert training.loader.n_rows == N_ROWS
    steps_of(training)
    assert child.answer() == "trained"


def test_equal_shards_are_refused(pair):
    child = pair("full", behaviour="same rows")
    with pytest.raises(GuaranteeVoidError, match="the same rows"):
        training_of(0, "full")
    assert child.answer() == "GuaranteeVoidError"


@pytest.mark.parametrize("distributed", [None, "parts"])
def test_several_processes_must_say_what_they_hold(monkeypatch, distributed):
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    with pytest.raises(CorrDPError, match="does not say which rows"):
        train(small_network(), part_of(0), distributed=distributed)


def test_other_backends_are_refused(monkeypatch):
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "get_backend", lambda: "mpi")
    with pytest.raises(CorrDPError, match="Initialize the group with 'gloo'"):
        train(small_network(), part_of(0), distributed="shards")


def test_a_dead_process_ends_training(pair):
    pair("full", behaviour="dies")
    _, training = training_of(0, "full")
    batch = training.loader.draw()
    with pytest.raises(GuaranteeVoidError, match="a process of this training is gone"):
        training.module.backward(*batch)
    assert not training.module.gradient_is_fresh
    with pytest.raises(GuaranteeVoidError, match="no private gradient"):
        training.optimizer.step()
    with pytest.raises(GuaranteeVoidError, match="this training has ended"):
        training.module.backward(*training.loader.draw())
