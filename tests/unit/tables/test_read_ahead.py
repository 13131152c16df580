"""Windows of a file are read before its segments are asked for, if they are missing."""

import numpy as np
import pytest

from corrdp.tables import ArrayFile, ArrayFileWriter, ReadAhead, _read_ahead

KEY = b"0" * 32
N_SEGMENTS = 6


@pytest.fixture
def file(tmp_path):
    with ArrayFileWriter(tmp_path / "a.tiles", key=KEY) as writer:
        for number in range(N_SEGMENTS):
            writer.add({"x": np.full(1000, number), "y": np.zeros(number)})
        writer.finish({})
    return ArrayFile(tmp_path / "a.tiles", key=KEY)


@pytest.fixture
def touched(monkeypatch):
    monkeypatch.setattr(_read_ahead, "_WINDOW_BYTES", 8192)
    windows, touch = [], ReadAhead._touch

    def recorded(self, start):
        touch(self, start)
        windows.append(start)

    monkeypatch.setattr(ReadAhead, "_touch", recorded)
    return windows


def test_segments_lie_where_the_file_says(file):
    for start, arrays in zip(file.starts, file.segments, strict=True):
        held = np.frombuffer(file.content[start : start + 8000].tobytes(), np.int64)
        assert held.tolist() == arrays["x"].tolist()


def test_windows_are_read_once_and_not_far_ahead(file, touched, monkeypatch):
    missed = iter([0, 5, 5, 5, 5, 5])
    monkeypatch.setattr(_read_ahead, "_missed_pages", lambda: next(missed))
    ahead, seen = ReadAhead(file), []
    for number in ahead:
        assert max(touched, default=0) <= file.starts[number] + 2 * 8192
        seen.append(number)
    assert seen == list(range(N_SEGMENTS))
    assert touched == list(range(0, file.size, 8192))
    assert list(ahead) == seen  # pages were missing in the pass before: once more
    assert len(touched) == 2 * len(range(0, file.size, 8192))
    assert list(ahead) == seen  # and now none were
    assert len(touched) == 2 * len(range(0, file.size, 8192))


def test_a_pass_that_breaks_off_ends_the_reading(file, touched):
    def broken():
        for _ in ReadAhead(file):
            raise KeyError

    with pytest.raises(KeyError):
        broken()
    assert list(ReadAhead(file)) == list(range(N_SEGMENTS))
