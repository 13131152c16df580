"""``corrdp confirm``: take responsibility for values that were read from data."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from corrdp._files import write_text
from corrdp._names import did_you_mean
from corrdp.cli._output import JsonOption, show
from corrdp.exceptions import PolicyError


def confirm(
    policy: Annotated[Path, typer.Argument(help="Policy file (TOML).")],
    fields: Annotated[
        list[str] | None,
        typer.Argument(help="Fields to confirm, such as features.age.bounds."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Confirm every field that waits.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Confirm fields of a draft policy, after you have checked them.

    By confirming you state that each value could be known without the private table:
    it is printed with every certificate's policy. What you confirm is listed.

    Example: corrdp confirm policy.toml features.age.bounds
    """
    import tomlkit

    from corrdp.policy import Policy

    checked = Policy.from_file(policy)
    if everything and fields:
        raise PolicyError(
            f"--all confirms every field, and {fields[0]!r} was named beside it. Pass "
            "the fields, or --all."
        )
    waiting_now = ", ".join(checked.unconfirmed) or "nothing"
    wanted = list(checked.unconfirmed) if everything else list(fields or ())
    unknown = [name for name in wanted if name not in checked.unconfirmed]
    if unknown:
        raise PolicyError(
            f"{unknown[0]!r} does not await confirmation in {str(policy)!r}."
            f"{did_you_mean(unknown[0], checked.unconfirmed)} To confirm: "
            f"{waiting_now}."
        )
    if not wanted and not everything:
        raise PolicyError(
            f"no field was named. To confirm: {waiting_now}. Name fields, or pass "
            "--all."
        )
    left = [name for name in checked.unconfirmed if name not in wanted]
    document = tomlkit.parse(policy.read_text(encoding="utf-8"))
    values = {name: _declared(document.unwrap(), name) for name in wanted}
    if left:
        waiting = tomlkit.array()
        waiting.extend(left)
        document["unconfirmed"] = waiting.multiline(True)
    elif "unconfirmed" in document:
        del document["unconfirmed"]
    # What a link leads to is confirmed, and the link stays.
    write_text(policy.resolve(), tomlkit.dumps(document))
    lines = []
    if wanted:
        lines.append("you state that these values could be known without the table:")
        lines += [f"  {name} = {value!r}" for name, value in values.items()]
    lines.append(f"confirmed {len(wanted)} fields, {len(left)} left to confirm")
    show(
        {"confirmed": wanted, "values": values, "unconfirmed": left},
        as_json=as_json,
        text="\n".join(lines),
    )


def _declared(document: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field such as ``features.age.bounds``, None if gone."""
    owner, _, field = name.rpartition(".")
    if owner.startswith("features."):  # a column's name may have dots of its own
        table = document.get("features", {}).get(owner.removeprefix("features."), {})
    else:
        table = document.get(owner, {})
    return table.get(field) if isinstance(table, Mapping) else None
