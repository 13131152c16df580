"""Where the paper's tables are published, and how they become the files used here."""

import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

_ADULT_HEADER = (
    "age,workclass,fnlwgt,education,educational-num,marital-status,occupation,"
    "relationship,race,gender,capital-gain,capital-loss,hours-per-week,"
    "native-country,income"
)


@dataclass(frozen=True)
class Origin:
    """A published table.

    Parameters
    ----------
    url : str
        Where it is published.
    sha256 : str
        Of the CSV that is made from it.
    convert : callable, optional
        Makes the CSV of the published bytes; None if that needs other programs.
    steps : str
        What to do by hand.
    """

    url: str
    sha256: str
    convert: Callable[[bytes], bytes] | None
    steps: str


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
