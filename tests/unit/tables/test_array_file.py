"""Files of arrays: private, whole or not there, and nobody else's."""

import errno
import os
import resource
import stat
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from corrdp.exceptions import CorrDPError
from corrdp.tables import ArrayFile, ArrayFileWriter, ForeignFileError, cache_key

KEY = b"0" * 32
SEGMENTS = [
    {"x": np.arange(7, dtype=np.float32), "flags": np.array([[True], [False]])},
    {"x": np.empty((0, 3), np.int64), "flags": np.zeros((2, 1), dtype=bool)},
]


def _write(path, key=KEY):
    with ArrayFileWriter(path, key=key) as file:
        for arrays in SEGMENTS:
            file.add(arrays)
        file.finish({"name": "n"})


def test_arrays_come_back_as_they_were(tmp_path):
    path = tmp_path / "new" / "a.tiles"
    _write(path)
    file = ArrayFile(path, key=KEY)
    assert file.facts == {"name": "n"}
    for arrays, held in zip(SEGMENTS, file.segments, strict=True):
        for name, array in arrays.items():
            assert held[name].dtype == array.dtype
            assert held[name].shape == array.shape
            assert (held[name] == array).all()
            assert not held[name].flags.writeable
    assert file.segments[0]["x"].ctypes.data % 64 == 0


def test_only_the_owner_may_read_it(tmp_path):
    before = os.umask(0)
    try:
        _write(tmp_path / "new" / "a.tiles")
        cache_key(tmp_path / "other")
    finally:
        os.umask(before)
    for path in (tmp_path / "new" / "a.tiles", tmp_path / "other" / ".key"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def _cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def _changed(path):
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)


def _emptied(path):
    path.write_bytes(b"")


def _foreign(path):
    path.unlink()
    _write(path, key=b"1" * 32)


def _other_format(path):
    path.write_bytes(b"PAR1" + bytes(200))


def _shared(path):
    path.chmod(0o640)


def _absent(path):
    path.unlink()


@pytest.mark.parametrize(
    "damage",
    [_cut, _changed, _emptied, _foreign, _other_format, _shared, _absent],
)
def test_what_is_not_ours_and_whole_is_refused(damage, tmp_path):
    path = tmp_path / "a.tiles"
    _write(path)
    ArrayFile(path, key=KEY)
    damage(path)
    with pytest.raises(ForeignFileError):
        ArrayFile(path, key=KEY)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EACCES])
def test_a_disk_that_is_full_leaves_nothing(error, tmp_path, monkeypatch):
    with ArrayFileWriter(tmp_path / "a.tiles", key=KEY) as file:
        file.add(SEGMENTS[0])

        class Full:
            close = file._file.close

            def write(self, content):
                raise OSError(error, os.strerror(error))

        monkeypatch.setattr(file, "_file", Full())
        with pytest.raises(CorrDPError) as caught:
            file.add(SEGMENTS[1])
    assert ("no space left" in str(caught.value)) == (error == errno.ENOSPC)
    assert "cache_dir" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_interrupted_leaves_nothing(tmp_path):
    def interrupted():
        with ArrayFileWriter(tmp_path / "a.tiles", key=KEY) as file:
            file.add(SEGMENTS[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kept", [True, False])
def test_a_disk_that_is_really_full_leaves_nothing(kept, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    def written():
        with ArrayFileWriter(tmp_path / "a.tiles", key=KEY, kept=kept) as file:
            for _ in range(100):
                file.add({"x": np.zeros(300)})
            file.finish({})

    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(CorrDPError, match="no space left"):
            written()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_not_kept_has_no_name(tmp_path):
    with ArrayFileWriter(tmp_path / "new" / "a.tiles", key=KEY, kept=False) as writer:
        writer.add(SEGMENTS[0])
        assert list((tmp_path / "new").iterdir()) == []
        file = writer.finish({})
    assert list((tmp_path / "new").iterdir()) == []
    assert file.segments[0]["x"].tolist() == SEGMENTS[0]["x"].tolist()
    assert stat.S_IMODE(os.fstat(file.number).st_mode) == 0o600
    other = ArrayFile(file.number, key=KEY)
    assert other.segments[0]["x"].tolist() == file.segments[0]["x"].tolist()
    with pytest.raises(ForeignFileError, match="was changed, or is not ours"):
        ArrayFile(file.number, key=b"1" * 32)


def test_what_another_user_has_put_there_is_not_believed(tmp_path, monkeypatch):
    path = tmp_path / "a.tiles"
    _write(path)
    cache_key(tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(ForeignFileError, match="or is theirs"):
        ArrayFile(path, key=KEY)
    with pytest.raises(CorrDPError, match="or is theirs"):
        cache_key(tmp_path)


def test_links_are_not_followed(tmp_path):
    _write(tmp_path / "a.tiles")
    (tmp_path / "b.tiles").symlink_to(tmp_path / "a.tiles")
    with pytest.raises(ForeignFileError, match="cannot be read"):
        ArrayFile(tmp_path / "b.tiles", key=KEY)
    cache_key(tmp_path / "other")
    (tmp_path / ".key").symlink_to(tmp_path / "other" / ".key")
    with pytest.raises(CorrDPError, match="cannot write tiles"):
        cache_key(tmp_path)


def test_a_directory_in_which_everybody_may_replace_files_is_refused(tmp_path):
    for mode, refused in ((0o777, True), (0o1777, False), (0o770, False)):
        tmp_path.chmod(mode)
        told = pytest.raises(CorrDPError, match="everybody may replace files")
        with told if refused else nullcontext():
            cache_key(tmp_path)


def test_a_directory_keeps_its_key(tmp_path):
    assert cache_key(tmp_path) == cache_key(tmp_path)
    assert cache_key(tmp_path) != cache_key(tmp_path / "other")
    (tmp_path / ".key").write_bytes(b"short")
    with pytest.raises(CorrDPError, match="damaged"):
        cache_key(tmp_path)


def test_two_processes_at_once_have_one_key(tmp_path, monkeypatch):
    link, others = os.link, b"k" * 32

    def second(source, target):
        """Come second: between looking and writing another key has appeared."""
        assert len(Path(source).read_bytes()) == 32  # never half of one
        target.touch(mode=0o600)
        target.write_bytes(others)
        link(source, target)

    monkeypatch.setattr(os, "link", second)
    assert cache_key(tmp_path) == cache_key(tmp_path) == others
    assert [path.name for path in tmp_path.iterdir()] == [".key"]
