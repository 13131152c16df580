"""Where the rows of a command are read: in this process, or by workers of an engine."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from corrdp.cli._options import EngineChoice
from corrdp.exceptions import CorrDPError

if TYPE_CHECKING:
    from corrdp.policy import Policy


def refuse_on_engine(
    engine: EngineChoice | None, address: str | None, needs_rows: Mapping[str, bool]
) -> None:
    """Raise for options that need the rows in this process, before anything is read.

    Parameters
    ----------
    engine, address
        The options of these names.
    needs_rows : mapping of str to bool
        Options, and whether they were given.
    """
    if engine is None:
        if address is not None:
            raise CorrDPError(
                f"--address={address!r} was given without --engine, so nobody would be "
                "asked there. Name the engine, or leave the address out."
            )
        return
    given = [option for option, was_given in needs_rows.items() if was_given]
    if given:
        raise CorrDPError(
            f"{given[0]} needs the rows in this process, and with --engine "
            f"{engine.value} they stay with its workers. Leave one of them out."
        )


@contextmanager
def rows_for(
    engine: EngineChoice | None, address: str | None, data: str, policy: "Policy"
) -> Iterator[Any]:
    """Give the files to an engine for as long as a command takes; or as they are."""
    if engine is None:
        yield data
        return
    from corrdp.engines import engine_files, engine_session
    from corrdp.policy import Feature, Label, number_columns

    declared: list[Feature | Label] = [*policy.features]
    declared += [] if policy.label is None else [policy.label]
    names = [column.name for column in declared]
    table = engine_files(engine.value, data, names, number_columns(declared))
    with engine_session(engine.value, address):
        yield table
