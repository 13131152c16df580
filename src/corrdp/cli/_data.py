"""Tables as commands read them: declared columns only, decodable text."""

from typing import TYPE_CHECKING, Any

from corrdp.exceptions import CorrDPError

if TYPE_CHECKING:
    from corrdp.policy import Policy


def read_data(path: str, policy: "Policy", *, with_label: bool = True) -> Any:
    """Return the policy's columns of a table, and no others."""
    from corrdp._tables import read_table
    from corrdp.policy import NumberDomain

    declared: list[Any] = list(policy.features)
    if with_label and policy.label is not None:
        declared.append(policy.label)
    numbers = [c.name for c in declared if isinstance(c.domain, NumberDomain)]
    table = read_table(path, [c.name for c in declared], number_columns=numbers)
    return decodable(path, table)


def read_all(path: str) -> Any:
    """Return a whole table."""
    from corrdp._tables import read_table

    return decodable(path, read_table(path))


def decodable(path: str, table: Any) -> Any:
    """Return the table, or raise if a column is not UTF-8 text."""
    import pyarrow as pa

    for field in table.schema:
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            raise CorrDPError(
                f"column {field.name!r} of {path!r} is not UTF-8 text. Convert the "
                "file, for example with iconv -f latin1 -t utf8."
            )
    if table.num_rows == 0:
        raise CorrDPError(f"{path!r} has no rows. Pass a table with at least one.")
    return table
