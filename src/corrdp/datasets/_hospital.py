"""The built-in hospital example: a table drawn from a network that is known exactly.

Every patient is drawn from a Bayesian network over bands (decades of age, bands of
income, five-day bands of stay); numbers are uniform within their band and independent
of all else. So what a column gives away about diagnosis and income can be computed to
the last digit, and the policy beside this file declares it, rounded up.

The arrows: age and sex decide who smokes; age, smoking and season the diagnosis; age,
sex and region the income; income and age the insurance; diagnosis and age the stay;
diagnosis, age, stay, insurance and income whether a patient is readmitted.
"""

from functools import cache
from importlib.resources import files
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrdp._typing import FloatArray
from corrdp._validate import check_count
from corrdp.datasets._store import pandas_for
from corrdp.policy import Policy

N_ROWS = 20_000

_SEXES = ("female", "male")
_REGIONS = ("north", "east", "south", "west", "capital")
_SEASONS = ("winter", "spring", "summer", "autumn")
_DIAGNOSES = ("heart", "lung", "injury", "infection", "cancer", "mental health")
_INSURANCES = ("public", "private", "none")
_YOUNGEST, _AGE_BAND, _INCOME_BAND, _STAY_BAND = 18, 10, 25_000, 5

# One letter per column, for the index notation of `np.einsum`.
_LETTERS = {
    "age": "a",
    "sex": "s",
    "region": "r",
    "season": "t",
    "smoker": "k",
    "diagnosis": "d",
    "income": "i",
    "insurance": "n",
    "length_of_stay": "l",
}


def hospital_policy_text() -> str:
    """Return the policy file of the hospital example, comments included."""
    return (files("corrdp.datasets") / "hospital.toml").read_text(encoding="utf-8")


def hospital_policy() -> Policy:
    """Return the policy of the hospital example."""
    return Policy.from_toml(hospital_policy_text())


def hospital_columns(
    n_rows: int = N_ROWS, *, random_state: int = 0
) -> dict[str, NDArray[Any]]:
    """Draw the hospital table as plain columns of `n_rows` patients.

    Features come in the order of the policy, then ``readmitted``. The patients are
    invented, so a fixed seed discloses nobody.
    """
    check_count("n_rows", n_rows)
    rng = np.random.default_rng(random_state)
    band: dict[str, NDArray[Any]] = {}
    for letters, table in _network().items():
        given = tuple(band[letter] for letter in letters[:-1])
        band[letters[-1]] = _draw(table[given] if given else table, n_rows, rng)
    age = _YOUNGEST + _AGE_BAND * band["a"] + rng.integers(_AGE_BAND, size=n_rows)
    income = _INCOME_BAND * band["i"] + rng.integers(_INCOME_BAND, size=n_rows)
    stay = _STAY_BAND * band["l"] + rng.integers(_STAY_BAND, size=n_rows)
    return {
        "diagnosis": np.array(_DIAGNOSES)[band["d"]],
        "income": income,
        "age": age,
        "sex": np.array(_SEXES)[band["s"]],
        "region": np.array(_REGIONS)[band["r"]],
        "insurance": np.array(_INSURANCES)[band["n"]],
        "smoker": band["k"].astype(bool),
        "length_of_stay": stay,
        "season": np.array(_SEASONS)[band["t"]],
        "readmitted": rng.random(n_rows) < _readmission(band),
    }


def hospital_table(n_rows: int = N_ROWS, *, random_state: int = 0) -> Any:
    """Draw the hospital table as a pandas frame; see `hospital_columns`."""
    pandas = pandas_for(
        "the hospital table is made", "Install pandas, or use hospital_columns."
    )
    return pandas.DataFrame(hospital_columns(n_rows, random_state=random_state))


def hospital_leakage() -> dict[str, float]:
    """Return the true leakage of every insensitive column, computed from the network.

    The largest total variation distance between the joint distributions of diagnosis
    and income given two values of the column. Income is uniform within its band
    whatever else is known, so bands lose nothing.

    Examples
    --------
    >>> leakage = hospital_leakage()
    >>> leakage["region"] < leakage["age"] < 1
    True
    """
    network = _network()
    terms: list[Any] = []
    for letters, table in network.items():
        terms += [table, [ord(letter) - ord("a") for letter in letters]]
    leakage = {}
    for name in hospital_policy().insensitive:
        out = [ord(letter) - ord("a") for letter in f"{_LETTERS[name]}di"]
        joint = np.einsum(*terms, out, optimize=True)
        given = joint.reshape(joint.shape[0], -1)
        given = given / given.sum(axis=1, keepdims=True)
        leakage[name] = max(
            float(np.abs(one - other).sum()) / 2
            for one, other in combinations(given, 2)
        )
    return leakage


@cache
def _network() -> dict[str, FloatArray]:
    """Return P(last letter | other letters) by letters, in the order of drawing."""
    decade = np.arange(8.0)
    middle = (decade - 3.5) / 3.5  # -1 for the youngest, 1 for the oldest
    male = np.array([0.0, 1.0])
    smoking = -1.1 + 0.5 * male - 0.25 * middle[:, None] ** 2  # age, sex
    smokes = 1 / (1 + np.exp(-smoking))
    diagnosis = (
        np.log([0.22, 0.16, 0.18, 0.17, 0.13, 0.14])
        + np.multiply.outer(middle, [0.65, 0.25, -0.65, 0.0, 0.5, -0.6])[
            :, None, None, :
        ]
        + np.multiply.outer([0.0, 1.0], [0.35, 0.8, -0.1, -0.1, 0.4, 0.1])[
            None, :, None, :
        ]
        + np.multiply.outer([1.0, 0.0, -1.0, 0.0], [0.0, 0.2, -0.1, 0.25, 0.0, 0.05])[
            None, None, :, :
        ]
    )
    career = 0.45 - 0.5 * middle**2 - 0.15 * middle  # incomes peak in mid-career
    earning = (
        career[:, None, None]
        + 0.25 * male[:, None]
        + np.array([-0.25, -0.05, -0.15, 0.1, 0.35])
    )
    bands = np.arange(6.0)
    income = -0.5 * (bands - 1.6 - earning[..., None]) ** 2 / 1.25**2
    insured = np.stack(
        [
            np.broadcast_to(0.6 + 0.3 * middle, (6, 8)),
            np.broadcast_to(-0.7 + 0.35 * bands[:, None], (6, 8)),
            np.broadcast_to(-0.9 - 0.25 * bands[:, None] - 0.3 * middle, (6, 8)),
        ],
        axis=-1,
    )
    severity = np.array([0.5, 0.3, -0.3, 0.0, 0.6, 0.4])
    days = np.arange(6.0)
    stay = -days * (0.75 - 0.25 * severity[:, None, None] - 0.15 * middle[:, None])
    return {
        "a": np.array([0.09, 0.11, 0.12, 0.14, 0.17, 0.17, 0.14, 0.06]),
        "s": np.array([0.53, 0.47]),
        "r": np.array([0.18, 0.16, 0.22, 0.2, 0.24]),
        "t": np.array([0.28, 0.25, 0.22, 0.25]),
        "ask": np.stack([1 - smokes, smokes], axis=-1),
        "aktd": _softmax(diagnosis),
        "asri": _softmax(income),
        "ian": _softmax(insured),
        "dal": _softmax(stay),
    }


def _readmission(band: dict[str, NDArray[Any]]) -> FloatArray:
    """Return the probability of readmission of every patient."""
    risk = np.array([0.7, 0.5, -0.9, -0.3, 0.9, 0.4])[band["d"]]
    cover = np.array([0.0, -0.4, 0.7])[band["n"]]
    score = (
        -2.0
        + risk
        + cover
        + 0.28 * band["a"]
        + 0.35 * band["l"]
        + 0.5 * band["k"]
        - 0.15 * band["i"]
    )
    probability: FloatArray = 1 / (1 + np.exp(-1.4 * score))
    return probability


def _softmax(scores: FloatArray) -> FloatArray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    normalized: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return normalized


def _draw(
    probability: FloatArray, n_rows: int, rng: np.random.Generator
) -> NDArray[Any]:
    """Draw one index per row from one distribution, or from one per row."""
    below = np.cumsum(probability, axis=-1)[..., :-1]
    drawn: NDArray[Any] = (rng.random(n_rows)[:, None] >= below).sum(axis=1)
    return drawn
