"""The four public tables of the paper's experiments, with their policies.

The files are not shipped. They are read from a directory that the caller names, or
that the environment variable ``CORRDP_DATA_DIR`` names, or from the user's cache, or
downloaded; and refused if they differ from the published bytes by as much as one.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corrdp._validate import check_choice
from corrdp.datasets._store import find_table, pandas_for
from corrdp.policy import (
    CategoryDomain,
    ColumnRole,
    Feature,
    Label,
    NeighborRelation,
    NumberDomain,
    Policy,
)

SENSITIVE = ColumnRole.SENSITIVE
INSENSITIVE = ColumnRole.INSENSITIVE


@dataclass(frozen=True, eq=False)
class PaperTable:
    """A table and the policy under which the paper looks at it.

    Parameters
    ----------
    frame : pandas.DataFrame
        Features and target, filtered as the paper filters them.
    policy : Policy
        Roles, declared domains and the paper's leakage. The label is public, as in
        the paper (Assumption 3.1).
    """

    frame: Any
    policy: Policy


def load_adult(directory: str | Path | None = None) -> PaperTable:
    """Return Adult: 45,175 rows, 9 features in 31 columns, leakage as printed.

    Rows with a ``?`` and exact duplicates are dropped. That filter looks at private
    rows and is part of the paper's set-up, not of any guarantee (erratum E23).
    """
    features = (
        _number("age", SENSITIVE, 17, 90),
        _number("educational-num", SENSITIVE, 1, 16),
        _number("hours-per-week", SENSITIVE, 1, 99),
        Feature(
            "marital-status",
            SENSITIVE,
            _categories(
                "Divorced, Married-AF-spouse, Married-civ-spouse, "
                "Married-spouse-absent, Never-married, Separated, Widowed"
            ),
        ),
        Feature(
            "relationship",
            SENSITIVE,
            _categories(
                "Husband, Not-in-family, Other-relative, Own-child, Unmarried, Wife"
            ),
        ),
        Feature(
            "race",
            INSENSITIVE,
            _categories("Amer-Indian-Eskimo, Asian-Pac-Islander, Black, Other, White"),
            leakage=0.23,
        ),
        Feature("gender", INSENSITIVE, _categories("Female, Male"), leakage=0.90),
        Feature(
            "workclass",
            INSENSITIVE,
            _categories(
                "Federal-gov, Local-gov, Private, Self-emp-inc, Self-emp-not-inc, "
                "State-gov, Without-pay"
            ),
            leakage=1.0,
        ),
        _number("fnlwgt", INSENSITIVE, 0, 500_000, leakage=0.22),
    )
    label = Label("income", _categories("<=50K, >50K"), score=0.0)
    return _table(_complete_adult(directory), Policy(features, label))


def load_credit_card(directory: str | Path | None = None) -> PaperTable:
    """Return Credit Card: 30,000 rows, the paper's roles and leakage.

    Amounts are clipped to declared bounds in NT dollars; months late are numbers.
    """
    delays = ["PAY_0", *(f"PAY_{month}" for month in range(2, 7))]
    bills = [f"BILL_AMT{month}" for month in range(1, 7)]
    payments = [f"PAY_AMT{month}" for month in range(1, 7)]
    features = (
        _number("LIMIT_BAL", SENSITIVE, 10_000, 500_000),
        *(_number(name, SENSITIVE, -2, 4) for name in delays),
        *(_number(name, SENSITIVE, 0, 200_000) for name in bills),
        *(_number(name, SENSITIVE, 0, 20_000) for name in payments),
        Feature("SEX", INSENSITIVE, _categories("1, 2"), leakage=0.103),
        Feature(
            "EDUCATION",
            INSENSITIVE,
            _categories("0, 1, 2, 3, 4, 5, 6"),
            leakage=0.8113,
        ),
        Feature("MARRIAGE", INSENSITIVE, _categories("0, 1, 2, 3"), leakage=0.8295),
        _number("AGE", INSENSITIVE, 21, 79, leakage=1.0),
    )
    label = Label("default payment next month", _categories("0, 1"), score=0.0)
    return _table(_read("credit_card", directory), Policy(features, label))


def load_medical_cost(
    directory: str | Path | None = None, *, roles: str = "appendix"
) -> PaperTable:
    """Return Medical Cost: 1,337 rows, a linear model of the charges.

    The paper names two sets of insensitive features (erratum E22): in its ``appendix``,
    age, sex and region, to which the printed leakage .36 belongs; in its ``text``, sex,
    smoker and region, declared here at the same value.
    """
    insensitive = {
        "appendix": ("age", "sex", "region"),
        "text": ("sex", "smoker", "region"),
    }
    check_choice("roles", roles, insensitive)
    domains: dict[str, NumberDomain | CategoryDomain] = {
        "age": NumberDomain(18, 64),
        "bmi": NumberDomain(15, 55),
        "children": NumberDomain(0, 5),
        "smoker": _categories("no, yes"),
        "sex": _categories("female, male"),
        "region": _categories("northeast, northwest, southeast, southwest"),
    }
    features = tuple(
        Feature(name, INSENSITIVE, domain, leakage=0.36)
        if name in insensitive[roles]
        else Feature(name, SENSITIVE, domain)
        for name, domain in domains.items()
    )
    label = Label("charges", NumberDomain(0, 50_000), score=0.0)
    frame = _read("medical_cost", directory).drop_duplicates()
    return _table(frame, Policy(features, label))


def load_sepsis(directory: str | Path | None = None) -> PaperTable:
    """Return Sepsis: 110,204 admissions, both insensitive features change at once."""
    features = (
        _number("age_years", SENSITIVE, 0, 100),
        Feature("sex_0male_1female", INSENSITIVE, _categories("0, 1")),
        Feature("episode_number", INSENSITIVE, _categories("1, 2, 3, 4, 5")),
    )
    label = Label("hospital_outcome_1alive_0dead", _categories("0, 1"), score=0.0)
    policy = Policy(
        features,
        label,
        relation=NeighborRelation.ALL_INSENSITIVE,
        block_leakage=0.3,
    )
    return _table(_read("sepsis", directory), policy)


def load_adult_wide(
    directory: str | Path | None = None,
    *,
    sensitive: Sequence[str] = ("marital-status", "relationship"),
    leakage: Mapping[str, float] | None = None,
) -> PaperTable:
    """Return Adult with all its columns, of which two or three are sensitive.

    Insensitive ones have the leakage that is given, for example estimated on public
    rows.
    """
    complete = _complete_adult(directory)
    paper = load_adult(directory).policy
    numbers = {
        "age": (17, 90),
        "fnlwgt": (0, 500_000),
        "educational-num": (1, 16),
        "capital-gain": (0, 15_000),
        "capital-loss": (0, 2_500),
        "hours-per-week": (1, 99),
    }
    declared = {feature.name: feature.domain for feature in paper.features}
    declared |= {name: NumberDomain(*b, bins=8) for name, b in numbers.items()}
    declared |= {name: _categories(text) for name, text in _WIDE_CATEGORIES.items()}
    features = tuple(
        Feature(
            name,
            SENSITIVE if name in sensitive else INSENSITIVE,
            declared[name],
            leakage=None if name in sensitive else (leakage or {}).get(name),
        )
        for name in complete.columns
        if name != "income"
    )
    return _table(complete, Policy(features, paper.label))


_WIDE_CATEGORIES = {
    "education": (
        "10th, 11th, 12th, 1st-4th, 5th-6th, 7th-8th, 9th, Assoc-acdm, Assoc-voc, "
        "Bachelors, Doctorate, HS-grad, Masters, Preschool, Prof-school, Some-college"
    ),
    "occupation": (
        "Adm-clerical, Armed-Forces, Craft-repair, Exec-managerial, Farming-fishing, "
        "Handlers-cleaners, Machine-op-inspct, Other-service, Priv-house-serv, "
        "Prof-specialty, Protective-serv, Sales, Tech-support, Transport-moving"
    ),
    "native-country": (
        "Cambodia, Canada, China, Columbia, Cuba, Dominican-Republic, Ecuador, "
        "El-Salvador, England, France, Germany, Greece, Guatemala, Haiti, "
        "Holand-Netherlands, Honduras, Hong, Hungary, India, Iran, Ireland, Italy, "
        "Jamaica, Japan, Laos, Mexico, Nicaragua, Outlying-US(Guam-USVI-etc), Peru, "
        "Philippines, Poland, Portugal, Puerto-Rico, Scotland, South, Taiwan, "
        "Thailand, Trinadad&Tobago, United-States, Vietnam, Yugoslavia"
    ),
}


def _complete_adult(directory: str | Path | None) -> Any:
    raw = _read("adult", directory)
    return raw[~(raw == "?").any(axis=1)].drop_duplicates()


def _number(
    name: str,
    role: ColumnRole,
    lower: float,
    upper: float,
    leakage: float | None = None,
) -> Feature:
    return Feature(name, role, NumberDomain(lower, upper, bins=8), leakage=leakage)


def _categories(text: str) -> CategoryDomain:
    return CategoryDomain(tuple(text.split(", ")))


def _table(frame: Any, policy: Policy) -> PaperTable:
    columns = [feature.name for feature in policy.features]
    assert policy.label is not None  # every table here has a target
    chosen = frame[[*columns, policy.label.name]].reset_index(drop=True)
    return PaperTable(chosen, policy)


def _read(name: str, directory: str | Path | None) -> Any:
    pandas = pandas_for("the paper's tables are read")
    return pandas.read_csv(io.BytesIO(find_table(name, directory)))
