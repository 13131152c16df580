"""Noise without a seed is never the same twice; with one, purposes do not share it."""

import os
import subprocess
import sys

import numpy as np

from corrdp._random import noise_generator

DRAW = "from corrdp._random import noise_generator as g; print(g().integers(2**62))"


def draws_of_a_fork(generator):
    """Return what a forked child draws from a generator that its parent made."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, str(generator.integers(2**62)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(write)
    with os.fdopen(read) as pipe:
        return int(pipe.read())


def test_two_processes_draw_different_noise():
    command = [sys.executable, "-W", "ignore", "-c", DRAW]
    printed = [subprocess.run(command, capture_output=True).stdout for _ in range(2)]
    assert all(text.strip().isdigit() for text in printed)
    assert printed[0] != printed[1]


def test_generators_of_one_process_continue_one_stream():
    draws = [noise_generator().integers(2**62) for _ in range(3)]
    assert len(set(draws)) == 3


def test_forked_children_draw_neither_each_others_noise_nor_their_parents():
    generator = noise_generator()
    children = [draws_of_a_fork(generator) for _ in range(2)]
    assert len({*children, int(generator.integers(2**62))}) == 3


def test_purposes_draw_different_noise_from_one_seed():
    first, again, other = (
        noise_generator(3, purpose=purpose).normal(size=4)
        for purpose in ("means", "means", "gradients")
    )
    assert np.array_equal(first, again)
    assert not np.any(first == other)
