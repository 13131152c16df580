"""One private file of many arrays, written once and mapped: the tile cache.

Segments of arrays follow each other, so that a pass over the rows is one pass over the
file. At its end stand the places of all arrays and a keyed digest of everything before:
a file that was cut, changed, or made by somebody without the key is not opened.
"""

import errno
import hashlib
import hmac
import json
import mmap
import os
import secrets
import stat
import struct
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from corrdp._files import PRIVATE_MODE
from corrdp._typing import JSONObject
from corrdp.exceptions import CorrDPError

KEY_BYTES = 32
_MAGIC = b"CORRDPT2"  # counts up with what tiles hold: older files are foreign
_ALIGNMENT = 64
_READ_BYTES = 2**22
_TAIL = struct.Struct("<Q32s8s")  # length of the index, digest, magic


class ForeignFileError(CorrDPError):
    """A file that is not what a cache has written whole under this key."""


class ArrayFileWriter:
    """Write segments of arrays to a private file that appears when it is whole.

    As a context: a file that was not finished leaves nothing behind, whatever
    interrupted it. One that is not `kept` has no name at any time, so that it is gone
    with the processes that hold it, whatever ends them.
    """

    def __init__(self, path: Path, *, key: bytes, kept: bool = True) -> None:
        self._path, self._key = path, key
        self._index: list[JSONObject] = []
        self._size = 0
        self._name: Path | None = None
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if kept:
                self._name = path.parent / f".{path.name}.{secrets.token_hex(8)}"
                flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
                opened = os.open(self._name, flags, PRIVATE_MODE)
                self._file: IO[bytes] = os.fdopen(opened, "w+b")
            else:
                self._file = tempfile.TemporaryFile(dir=path.parent)  # noqa: SIM115
        except OSError as error:
            raise _cannot_cache(path.parent, error) from None
        self._digest = hmac.new(key, digestmod=hashlib.sha256)
        self._write(_MAGIC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # writes what is left, for which there may be no space
            self._file.close()
        if self._name is not None:
            self._name.unlink(missing_ok=True)  # renamed by now, if it was finished

    def add(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Append one segment."""
        places: JSONObject = {}
        for name, array in arrays.items():
            self._write(b"\0" * (-self._size % _ALIGNMENT))
            held = np.ascontiguousarray(array)
            places[name] = [self._size, held.dtype.str, list(held.shape)]
            self._write(held.data.cast("B") if held.size else b"")
        self._index.append(places)

    def finish(self, facts: JSONObject) -> "ArrayFile":
        """Write the index, give the file its name, and return it mapped."""
        index = json.dumps({"segments": self._index, "facts": facts}).encode()
        self._write(index)
        tail = _TAIL.pack(len(index), self._digest.digest(), _MAGIC)
        try:
            self._file.write(tail)
            self._file.flush()
            if self._name is not None:
                os.replace(self._name, self._path)
        except OSError as error:
            raise _cannot_cache(self._path.parent, error) from None
        return ArrayFile(self._file.fileno(), key=self._key, check=False)

    def _write(self, content: Any) -> None:
        try:
            self._file.write(content)
        except OSError as error:
            raise _cannot_cache(self._path.parent, error) from None
        self._digest.update(content)
        self._size += len(content)


class ArrayFile:
    """A file of `ArrayFileWriter`, mapped: arrays are read when they are touched.

    A file that is no such file, was cut or changed, or is another user's or readable by
    others is a `ForeignFileError`; to `check` reads it all and compares the digest, as
    for a file that was kept. `source` may be the number under which this process has
    it open, and `number` is an open descriptor, which lives as long as this object:
    other processes that inherit it need no name.
    """

    def __init__(self, source: Path | int, *, key: bytes, check: bool = True) -> None:
        name = "the file" if isinstance(source, int) else repr(str(source))
        try:
            self.number = (
                os.dup(source)
                if isinstance(source, int)
                else os.open(source, os.O_RDONLY | os.O_NOFOLLOW)
            )
            weakref.finalize(self, os.close, self.number)
            is_private = _is_private(os.fstat(self.number))
            self._mapped = mmap.mmap(self.number, 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):  # not there, a link, not readable, or empty
            raise ForeignFileError(f"{name} cannot be read.") from None
        if not is_private:
            raise ForeignFileError(f"{name} may be read by others, or is theirs.")
        document = self._index(name, key, check=check)
        self.facts: JSONObject = document["facts"]
        self.segments: list[dict[str, NDArray[Any]]] = [
            {name: self._array(*place) for name, place in places.items()}
            for places in document["segments"]
        ]

    @property
    def size(self) -> int:
        """Number of bytes."""
        return len(self._mapped)

    def _index(self, name: str, key: bytes, *, check: bool) -> JSONObject:
        size = len(self._mapped)
        body = size - _TAIL.size
        if body < len(_MAGIC) or self._mapped[: len(_MAGIC)] != _MAGIC:
            raise ForeignFileError(f"{name} is no tile cache.")
        length, digest, magic = _TAIL.unpack(self._mapped[body:])
        if magic != _MAGIC or not 0 < length <= body - len(_MAGIC):
            raise ForeignFileError(f"{name} was cut off.")
        if check:
            keyed = hmac.new(key, digestmod=hashlib.sha256)
            for start in range(0, body, _READ_BYTES):
                keyed.update(self._mapped[start : min(start + _READ_BYTES, body)])
            if not hmac.compare_digest(keyed.digest(), digest):
                raise ForeignFileError(f"{name} was changed, or is not ours.")
        document: JSONObject = json.loads(self._mapped[body - length : body])
        return document

    def _array(self, place: int, kind: str, shape: list[int]) -> NDArray[Any]:
        count = int(np.prod(shape))
        flat = np.frombuffer(self._mapped, np.dtype(kind), count, place)
        return flat.reshape(shape)


def cache_key(directory: Path) -> bytes:
    """Return the secret of a cache directory, made when it is first asked for."""
    path = directory / ".key"
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode = directory.stat().st_mode
        if not path.exists():
            _write_key(path)
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            key, is_private = file.read(), _is_private(os.fstat(file.fileno()))
    except OSError as error:
        raise _cannot_cache(directory, error) from None
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise CorrDPError(
            f"everybody may replace files in {str(directory)!r}, tiles among them. "
            "Name a directory of your own with cache_dir."
        )
    if len(key) != KEY_BYTES or not is_private:
        raise CorrDPError(
            f"the key {str(path)!r} of the cache is damaged, may be read by others or "
            "is theirs. Remove the directory; the cache is made anew."
        )
    return key


def _is_private(facts: os.stat_result) -> bool:
    """Return whether a file is this user's, and nobody else may read it."""
    return not facts.st_mode & 0o077 and facts.st_uid == os.geteuid()


def _write_key(path: Path) -> None:
    """Write a new secret; whoever comes at the same time finds one whole key."""
    name = path.parent / f"{path.name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with os.fdopen(os.open(name, flags, PRIVATE_MODE), "wb") as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        with suppress(FileExistsError):  # another process was first
            os.link(name, path)
    finally:
        name.unlink(missing_ok=True)


def _cannot_cache(directory: Path, error: OSError) -> CorrDPError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return CorrDPError(
            f"there is no space left in {str(directory)!r} for the tiles of the table "
            "(some 40 bytes per row and 30 encoded columns). Nothing was left there. "
            "Name a larger disk with cache_dir, or free some space."
        )
    reason = error.strerror or type(error).__name__
    return CorrDPError(
        f"cannot write tiles to {str(directory)!r}: {reason}. Name another directory "
        "with cache_dir."
    )
