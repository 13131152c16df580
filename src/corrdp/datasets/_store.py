"""Finding the paper's tables: a directory, the user's cache, or their public origin.

A file is used only if the CSV in it is the published one to the last byte.
"""

import gzip
import hashlib
import http.client
import io
import os
import sys
import tempfile
import urllib.request
import warnings
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corrdp.exceptions import CorrDPError, CorrDPWarning

_ADULT_HEADER = (
    "age,workclass,fnlwgt,education,educational-num,marital-status,occupation,"
    "relationship,race,gender,capital-gain,capital-loss,hours-per-week,"
    "native-country,income"
)
DATA_DIRECTORY_VARIABLE = "CORRDP_DATA_DIR"
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Origin:
    """A published table, and how a CSV is made of the published bytes."""

    url: str
    sha256: str  # of the CSV
    convert: Callable[[bytes], bytes] | None  # None if that needs other programs
    steps: str  # by hand


def adult_csv(published: bytes) -> bytes:
    """Join UCI's two files, test rows first; one header, no blanks, no full stops."""
    lines = [_ADULT_HEADER]
    with zipfile.ZipFile(io.BytesIO(published)) as archive:
        for name in ("adult.test", "adult.data"):
            for line in archive.read(name).decode("ascii").splitlines():
                row = line.replace(", ", ",").strip().removesuffix(".")
                if row and not row.startswith("|"):
                    lines.append(row)
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def sepsis_csv(published: bytes) -> bytes:
    """Take the primary cohort out of UCI's archive, as it is."""
    with zipfile.ZipFile(io.BytesIO(published)) as archive:
        for name in archive.namelist():
            if name.endswith("primary_cohort.csv"):
                return archive.read(name)
            if name.endswith(".zip"):
                return sepsis_csv(archive.read(name))
    raise zipfile.BadZipFile("no primary cohort in the archive")


def medical_cost_csv(published: bytes) -> bytes:
    """End every line alike, the last one included."""
    return b"".join(line + b"\n" for line in published.splitlines())


ORIGINS = {
    "adult": Origin(
        url="https://archive.ics.uci.edu/static/public/2/adult.zip",
        sha256="2a974e047fea771e7c773b66db2ec9e3403d68b33c9532e26e714d42610dae20",
        convert=adult_csv,
        steps="join adult.test and adult.data under one header line, without blanks "
        "after commas and full stops after labels",
    ),
    "sepsis": Origin(
        url="https://archive.ics.uci.edu/static/public/827/"
        "sepsis+survival+minimal+clinical+records.zip",
        sha256="6ba4ebd256fa3b5f6c0d42444a3e6b9a4b90d6e493c9efdfedcb2ef7470d4b0f",
        convert=sepsis_csv,
        steps="take the CSV of the primary cohort as it is",
    ),
    "credit_card": Origin(
        url="https://archive.ics.uci.edu/static/public/350/"
        "default+of+credit+card+clients.zip",
        sha256="4edce6da569b2c30788a85fd98a9bafb1a983e8ca1a7aac875dd7ff853cbd0bb",
        convert=None,
        steps="open the spreadsheet, delete its first line (X1, X2, ...) and save it "
        "as comma-separated text with plain whole numbers and line feeds",
    ),
    "medical_cost": Origin(
        url="https://raw.githubusercontent.com/stedy/"
        "Machine-Learning-with-R-datasets/master/insurance.csv",
        sha256="6e3894cf7d9210613f62c866684055decea694345cd4f244ecd7167041578c68",
        convert=medical_cost_csv,
        steps="end every line with a line feed, the last one included",
    ),
}


def find_table(name: str, directory: str | Path | None = None) -> bytes:
    """Return the CSV of a table of the paper, from ``<name>.csv.gz`` or ``<name>.csv``.

    By default in the directory that ``CORRDP_DATA_DIR`` names, then in the user's
    cache; what is in neither is downloaded into the cache.
    """
    origin = ORIGINS[name]
    if directory is not None:
        found = _read(Path(directory), name, origin)
        if found is None:
            raise CorrDPError(
                f"neither {name}.csv.gz nor {name}.csv exists in {str(directory)!r}. "
                f"Check directory, or leave it out to look in {DATA_DIRECTORY_VARIABLE}"
                " and to download."
            )
        return found
    named = os.environ.get(DATA_DIRECTORY_VARIABLE)
    cache = user_cache()
    for place in (*([Path(named)] if named else []), cache):
        found = _read(place, name, origin)
        if found is not None:
            return found
    table = _download(name, origin)
    _keep(cache / f"{name}.csv.gz", table)
    return table


def pandas_for(what: str, remedy: str = "Install pandas.") -> Any:
    """Return pandas, or say what needs it."""
    try:
        import pandas
    except ImportError:
        raise CorrDPError(
            f"{what} with pandas, which is not installed. {remedy}"
        ) from None
    return pandas


def user_cache() -> Path:
    """Return the directory in which this user's programs keep what can be fetched."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "corrdp"


def _read(directory: Path, name: str, origin: Origin) -> bytes | None:
    for path in (directory / f"{name}.csv.gz", directory / f"{name}.csv"):
        if not path.is_file():
            continue
        stored = path.read_bytes()
        try:
            table = gzip.decompress(stored) if path.suffix == ".gz" else stored
        except (OSError, EOFError, zlib.error):
            raise CorrDPError(
                f"the file {str(path)!r} cannot be unpacked. Remove it and fetch it "
                "again."
            ) from None
        found = hashlib.sha256(table).hexdigest()
        if found != origin.sha256:
            raise CorrDPError(
                f"the table in {str(path)!r} has sha256 {found[:12]}..., expected "
                f"{origin.sha256[:12]}.... Remove the file and fetch it again."
            )
        return table
    return None


def _download(name: str, origin: Origin) -> bytes:
    by_hand = (
        f"By hand: download {origin.url}, {origin.steps}, save it as {name}.csv and "
        f"set {DATA_DIRECTORY_VARIABLE} to its directory."
    )
    if origin.convert is None:
        raise CorrDPError(
            f"the table {name!r} is in no directory and is published in a form that "
            f"cannot be read here. {by_hand}"
        )
    try:
        with urllib.request.urlopen(origin.url, timeout=_TIMEOUT_SECONDS) as response:
            published = response.read()
    except (OSError, http.client.HTTPException) as error:
        raise CorrDPError(
            f"downloading the table {name!r} failed ({type(error).__name__}). {by_hand}"
        ) from None
    try:
        table = origin.convert(published)
    except (KeyError, UnicodeDecodeError, zipfile.BadZipFile):
        raise CorrDPError(
            f"what {origin.url} publishes is not what was expected. {by_hand}"
        ) from None
    found = hashlib.sha256(table).hexdigest()
    if found != origin.sha256:
        raise CorrDPError(
            f"the downloaded table {name!r} has sha256 {found[:12]}..., expected "
            f"{origin.sha256[:12]}..., and was not kept: its origin has changed. "
            f"{by_hand}"
        )
    return table


def _keep(path: Path, table: bytes) -> None:
    """Write a file whole or not at all; without a cache the table is still there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".unfinished-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(gzip.compress(table, mtime=0))
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        warnings.warn(
            f"the downloaded table cannot be kept in {str(path.parent)!r} "
            f"({error.strerror}) and will be downloaded again. Set "
            f"{DATA_DIRECTORY_VARIABLE}, or make the directory writable.",
            CorrDPWarning,
            stacklevel=2,
        )
