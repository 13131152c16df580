"""``corrdp check``: whether a table fits the policy, and the policy is ready."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from corrdp._names import BLOCK, INTERCEPT
from corrdp.cli._options import DataArgument, PolicyOption
from corrdp.cli._output import JsonOption, show, working
from corrdp.exceptions import PolicyError

if TYPE_CHECKING:
    from corrdp.policy import Policy

TO_CONFIRM = "to confirm: "
TO_DECLARE = "to declare or estimate: leakage of "
TO_RENAME = "to rename before models are trained, which have one of their own: "
NOT_IN_POLICY = "not in the policy: "


def check(
    data: DataArgument, policy: PolicyOption, as_json: JsonOption = False
) -> None:
    """Check a table against a policy; exit code 3 if they do not fit.

    That a table fits or not is visible and depends on its rows: keep the answer, or
    declare slots and replacements so that nothing can be refused.

    Example: corrdp check data.csv --policy policy.toml
    """
    from corrdp.policy import Policy, read_declared, table_problems

    declared = Policy.from_file(policy)
    with working("Reading the table"):
        table = read_declared(data, declared, with_others=True)
        problems = table_problems(declared, table)
    to_do = _to_do(declared)
    notes = [what + name for what, names in to_do.items() for name in names]
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
    listed = to_do | {NOT_IN_POLICY: document["not_in_policy"]}
    lines += [what + ", ".join(names) for what, names in listed.items() if names]
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


def _to_do(policy: "Policy") -> dict[str, Sequence[str]]:
    """Return what must still be done before anything can be released, and to what."""
    from corrdp.policy import NeighborRelation

    unknown = policy.unknown_leakages
    if policy.relation is NeighborRelation.ALL_INSENSITIVE:
        unknown = (BLOCK,) if policy.block_leakage is None else ()
    names = [feature.name for feature in policy.features]
    return {
        TO_CONFIRM: policy.unconfirmed,
        TO_DECLARE: unknown,
        TO_RENAME: [name for name in names if name == INTERCEPT],
    }
