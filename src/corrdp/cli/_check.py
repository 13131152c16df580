"""``corrdp check``: whether a table fits the policy, and the policy is ready."""

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from corrdp._names import BLOCK, INTERCEPT
from corrdp.cli._options import DataArgument, PolicyOption
from corrdp.cli._output import JsonOption, show, working
from corrdp.exceptions import CorrDPError, PolicyError

if TYPE_CHECKING:
    from corrdp.policy import Policy

TO_CONFIRM = "to confirm: "
TO_DECLARE = "to declare or estimate: leakage of "
TO_RENAME = "to rename before models are trained, which have one of their own: "
NOT_IN_POLICY = "not in the policy: "
_BEGINNINGS = (TO_CONFIRM, TO_DECLARE, TO_RENAME, NOT_IN_POLICY)


def check(
    data: DataArgument, policy: PolicyOption, as_json: JsonOption = False
) -> None:
    """Check a table against a policy; exit code 3 if they do not fit.

    That a table fits or not is visible and depends on its rows: keep the answer, or
    declare slots and replacements so that nothing can be refused.

    Example: corrdp check data.csv --policy policy.toml
    """
    from corrdp.policy import Policy, read_declared

    declared = Policy.from_file(policy)
    with working("Reading the table"):
        table = read_declared(data, declared, with_others=True)
        problems = table_problems(declared, table)
    notes = _notes(declared)
    mentioned = {declared.unit, *(column.name for column in declared.columns)}
    document: dict[str, Any] = {
        "fits": not problems,
        "ready": not problems and not notes,
        "problems": problems,
        "unconfirmed": list(declared.unconfirmed),
        "to_do": notes,
        "not_in_policy": [n for n in table.column_names if n not in mentioned],
        "fingerprint": declared.fingerprint(),
    }
    lines = [f"column {name}: {problem}" for name, problem in problems.items()]
    lines += _joined(notes)
    lines += _joined([NOT_IN_POLICY + name for name in document["not_in_policy"]])
    lines.append(
        "the table fits the policy"
        if not problems
        else "the table does not fit the policy"
    )
    show(document, as_json=as_json, text="\n".join(lines))
    if problems:
        raise PolicyError(
            f"{len(problems)} columns do not fit the policy {str(policy)!r}. Correct "
            "the policy or the table."
        )


def require_fit(policy: "Policy", table: Any, names: Collection[str]) -> None:
    """Raise if a column does not fit, before a ledger pays for what reads it."""
    for problem in table_problems(policy, table, names).values():
        raise PolicyError(problem)


def table_problems(
    policy: "Policy", table: Any, names: Collection[str] | None = None
) -> dict[str, str]:
    """Return what is wrong with each column that does not fit, without its values.

    Of all columns, or only of those that are named.
    """
    from corrdp.policy import ColumnRole, Policy, PolicyEncoder, without_knots

    problems = {}
    for feature in policy.features:
        if names is not None and feature.name not in names:
            continue
        alone = replace(feature, role=ColumnRole.SENSITIVE, leakage=None, score=0.0)
        encoder = PolicyEncoder(without_knots(Policy((alone,))))
        # One code per row: a matrix has a column for each of a thousand categories.
        read = encoder.codes if encoder.n_codes else encoder.transform
        try:
            read(table)
        except CorrDPError as error:
            problems[feature.name] = str(error)
    label = policy.label
    if label is not None and (names is None or label.name in names):
        try:
            if label.name not in table.column_names:
                raise PolicyError(
                    f"The table lacks the column {label.name!r}. Add it, or name "
                    "another target."
                )
            single = replace(policy, unit=None, max_rows=None)  # cells are the same
            PolicyEncoder(single).encode_label(table[label.name])
        except CorrDPError as error:
            problems[label.name] = str(error)
    return problems


def _notes(policy: "Policy") -> list[str]:
    """Return what must still be done before anything can be released."""
    from corrdp.policy import NeighborRelation

    notes = [TO_CONFIRM + name for name in policy.unconfirmed]
    unknown = policy.unknown_leakages
    if policy.relation is NeighborRelation.ALL_INSENSITIVE:
        unknown = (BLOCK,) if policy.block_leakage is None else ()
    notes += [TO_DECLARE + name for name in unknown]
    names = [feature.name for feature in policy.features]
    return notes + [TO_RENAME + name for name in names if name == INTERCEPT]


def _joined(notes: list[str]) -> list[str]:
    """Return one line for all notes that begin alike."""
    found: dict[str, list[str]] = {}
    for note in notes:
        beginning = next(known for known in _BEGINNINGS if note.startswith(known))
        found.setdefault(beginning, []).append(note.removeprefix(beginning))
    return [beginning + ", ".join(names) for beginning, names in found.items()]
