"""The noise stream: cryptographic, seeded on request, new after a fork."""

import builtins
import os
import tomllib
from pathlib import Path

import numpy as np
import pytest

from corrdp import _random
from corrdp._random import noise_generator, noise_source
from corrdp.exceptions import CorrDPError


def test_default_stream_is_a_stream_cipher():
    assert type(noise_generator().bit_generator).__name__ == "ChaCha"
    assert noise_generator() is noise_generator()


def test_a_seed_replays():
    first, second = (noise_generator(3).integers(0, 2**60, 8) for _ in range(2))
    assert np.array_equal(first, second)


def in_child(action):
    """Return what a forked child computes, as bytes."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, action())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        result = stream.read()
    os.waitpid(child, 0)
    return result


def test_purposes_draw_different_noise_from_one_seed():
    plain, leakage = (noise_generator(3, purpose=p).random(4) for p in ("", "leakage"))
    assert not np.array_equal(plain, leakage)
    assert np.array_equal(leakage, noise_generator(3, purpose="leakage").random(4))


def test_a_fork_takes_a_new_key():
    generator = noise_generator()
    generator.integers(0, 2)
    drawn = [in_child(lambda: generator.bytes(32)) for _ in range(2)]
    drawn.append(generator.bytes(32))
    assert len(set(drawn)) == 3


def test_without_a_new_key_a_fork_repeats_the_parent():
    """The twin: a generator that is not registered is copied as it stands."""
    plain = np.random.Generator(_random._fresh_bits())
    assert in_child(lambda: plain.bytes(32)) == plain.bytes(32)


def test_without_the_secure_generator_there_is_no_noise(monkeypatch):
    real_import = builtins.__import__

    def without_randomgen(name, *args, **kwargs):
        if name == "randomgen":
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_randomgen)
    with pytest.raises(CorrDPError, match="randomgen is not installed"):
        _random._fresh_bits()
    assert noise_generator(3).random() >= 0.0  # a seed, for research, needs no key


def test_certificates_name_what_draws_the_noise():
    secret = noise_generator().bit_generator
    assert type(secret).__name__ == "ChaCha"
    assert secret.state["state"]["rounds"] == 20
    assert noise_source(replayable=False).startswith("ChaCha20")
    seeded = noise_generator(3).bit_generator
    assert noise_source(replayable=True).startswith(type(seeded).__name__)


def test_the_secure_generator_is_no_extra():
    path = Path(__file__).parents[3] / "pyproject.toml"
    project = tomllib.loads(path.read_text(encoding="utf-8"))["project"]
    assert any(line.startswith("randomgen") for line in project["dependencies"])
