"""The draft of a policy: what can be guessed from a table, marked as guessed."""

from dataclasses import dataclass, field
from typing import Any

import tomlkit

from corrdp._names import did_you_mean
from corrdp.exceptions import PolicyError
from corrdp.policy._guess import DRAFT_BINS, FEWEST_ROWS, Guess, guess_domain
from corrdp.tables import MISSING_TEXTS, read_table

READ_MARK = "read from data: confirm"
"""Comment beside every field that awaits confirmation."""

_MOST_NAMES = 30


@dataclass
class Draft:
    """What a person has to know of a draft.

    Parameters
    ----------
    unconfirmed
        Fields whose values came from private rows.
    left_out
        Columns that the policy does not mention, and why.
    doubtful
        Columns that are there because the user named them, and why one may doubt it.
    """

    unconfirmed: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    doubtful: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DraftWishes:
    """What the user said of the columns."""

    target: str
    sensitive: tuple[str, ...]
    public: tuple[str, ...]
    left_out: tuple[str, ...]
    category: tuple[str, ...]
    label_protected: bool

    def names(self, column: str) -> bool:
        """Return whether the user asked for a column by name."""
        return column in (*self.sensitive, *self.public, *self.category)


def draft_policy(table: Any, wishes: DraftWishes) -> tuple[str, Draft]:
    """Return a commented policy file and what in it awaits confirmation.

    Parameters
    ----------
    table : pyarrow.Table
        Private rows, judged by the texts of their cells, as of any file. Bounds are
        rounded outwards and categories listed unless very few rows hold them; each
        such field is named in ``unconfirmed``, and training refuses the file until a
        person has taken responsibility for it. Free text, identifiers and dates are
        left out. Every feature says what becomes of unknown and missing values: they
        get a slot where there are any, and are replaced where there are none, so that
        later rows are hardly ever refused.
    wishes : DraftWishes
        Roles and target.
    """
    table = read_table(table.to_reader(), number_columns=())
    _check_names(table, wishes)
    draft = Draft(left_out=dict.fromkeys(wishes.left_out, "you left it out"))
    features = tomlkit.table(is_super_table=True)
    for name in table.column_names:
        if name == wishes.target or name in draft.left_out:
            continue
        if not name:  # as many programs write the number of the row
            draft.left_out["the column without a name"] = "a policy names its columns"
            continue
        guess = guess_domain(
            name, table[name], as_category=name in wishes.category, is_label=False
        )
        if not guess.domain or (guess.reason and not wishes.names(name)):
            _refuse_if_needed(name, guess, wishes)
            draft.left_out[name] = guess.reason
            continue
        if guess.reason:
            draft.doubtful[name] = guess.reason
        draft.unconfirmed += [f"features.{name}.{part}" for part in guess.read]
        features.add(name, _feature_table(name, guess, wishes))
    label = _label_table(table[wishes.target], wishes, draft)
    document = tomlkit.document()
    for line in _header(draft):
        document.add(tomlkit.comment(line))
    document.add(tomlkit.nl())
    document["target"] = wishes.target
    document["relation"] = "one_insensitive"
    document["conditioning"] = "marginal"
    waiting = tomlkit.array()
    waiting.extend(draft.unconfirmed)
    document["unconfirmed"] = waiting.multiline(True)
    document["features"] = features
    document["label"] = label
    return tomlkit.dumps(document), draft


def _header(draft: Draft) -> list[str]:
    lines = [
        "Draft of a policy. Values marked 'confirm' were read from the private table.",
        "Replace each by a value known without the data (a codebook, a law of nature),",
        "then remove its field from `unconfirmed`: corrdp confirm FILE --all",
        "",
        f"Categories that fewer than {FEWEST_ROWS} rows hold are not listed: they fall "
        "into `other`.",
        "Unknown and missing values have a slot where the table has some, and are",
        "replaced (`unknown`, `missing_value`) where it has none: no row is refused.",
        "",
        "An insensitive feature needs a `leakage`: an upper bound in [0, 1] on what it",
        "tells about the sensitive ones. Declare it, or estimate it: corrdp leakage.",
    ]
    if draft.left_out:
        lines += ["", "Columns left out:"]
        lines += [f"  {_word(n)}: {reason}" for n, reason in draft.left_out.items()]
    return lines


def _word(name: str) -> str:
    """Return a column name that fits into a comment."""
    return name if name.isprintable() else ascii(name)


def _feature_table(name: str, guess: Guess, wishes: DraftWishes) -> Any:
    role = "insensitive"
    if name in wishes.sensitive:
        role = "sensitive"
    elif name in wishes.public:
        role = "public"
    table = tomlkit.table()
    if guess.reason:
        table.add(tomlkit.comment(f"{guess.reason}: should it be left out?"))
    table["role"] = role
    _write_domain(table, guess)
    if role == "insensitive" and not _has_one_value(guess):
        table.add(tomlkit.comment("leakage = 1.0"))
    return table


def _has_one_value(guess: Guess) -> bool:
    """Return whether a column has one value, so that nothing is to be declared."""
    has_slot = "other" in guess.domain or "missing" in guess.domain
    return len(guess.domain.get("categories", ())) == 1 and not has_slot


def _label_table(column: Any, wishes: DraftWishes, draft: Draft) -> Any:
    if _has_missing(column):
        raise PolicyError(
            f"the target {wishes.target!r} has missing values. Leave those rows out, "
            "then run init again."
        )
    as_category = wishes.target in wishes.category
    guess = guess_domain(wishes.target, column, as_category=as_category, is_label=True)
    if not guess.domain:
        raise PolicyError(
            f"the target {wishes.target!r} cannot be drafted: {guess.reason}. Prepare "
            "it, then run init again."
        )
    draft.unconfirmed += [f"label.{part}" for part in guess.read]
    table = tomlkit.table()
    _write_domain(table, guess)
    if wishes.label_protected and guess.domain["type"] == "number":
        table["bins"] = DRAFT_BINS  # leakage is about the label too, and is counted
    table["score"] = 1.0 if wishes.label_protected else 0.0
    table["score"].comment(
        "labels are protected like sensitive features"
        if wishes.label_protected
        else "labels are not protected"
    )
    return table


def _has_missing(column: Any) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = pc.is_in(column, value_set=pa.array(MISSING_TEXTS))
    return bool(column.null_count or pc.any(missing).as_py())


def _write_domain(table: Any, guess: Guess) -> None:
    for key, value in guess.domain.items():
        item = tomlkit.item(value)
        if key in guess.read:
            item.comment(READ_MARK)
        table[key] = item


def _refuse_if_needed(name: str, guess: Guess, wishes: DraftWishes) -> None:
    if name in wishes.sensitive:
        raise PolicyError(
            f"the sensitive column {name!r} cannot be drafted: {guess.reason}. Prepare "
            "it (merge its values, convert it), or move it from --sensitive to "
            "--leave-out."
        )


def _listed(names: list[str]) -> str:
    """Return the first names, and how many follow: a wide table has hundreds."""
    more = len(names) - _MOST_NAMES
    shown = ", ".join(names[:_MOST_NAMES])
    return f"{shown} and {more} more" if more > 0 else shown


def _check_names(table: Any, wishes: DraftWishes) -> None:
    named = {
        "--target": (wishes.target,),
        "--sensitive": wishes.sensitive,
        "--public": wishes.public,
        "--leave-out": wishes.left_out,
        "--category": wishes.category,
    }
    for option, columns in named.items():
        for name in columns:
            if name not in table.column_names:
                split = any(
                    "," in other or other != other.strip()
                    for other in table.column_names
                )
                raise PolicyError(
                    f"{option} names {name!r}, which is not a column."
                    f"{did_you_mean(name, table.column_names)} Columns: "
                    f"{_listed(table.column_names)}."
                    + " Write a name with commas, or with blanks around it, in quotes: "
                    "'\"a,b\",c'." * split
                )
    roles = [*wishes.sensitive, *wishes.public, *wishes.left_out, wishes.target]
    for name in roles:
        if roles.count(name) > 1:
            raise PolicyError(
                f"column {name!r} is given two roles. A column is sensitive, public, "
                "left out or the target: name it once."
            )
