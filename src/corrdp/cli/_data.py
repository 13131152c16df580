"""Tables as commands read them: declared columns only, as declared."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corrdp.policy import Policy


def read_data(path: str, policy: "Policy", *, with_label: bool = True) -> Any:
    """Return the policy's columns of a table, and no others."""
    from corrdp.policy import number_columns
    from corrdp.tables import read_table

    declared = _declared(policy, with_label=with_label)
    names = [column.name for column in declared]
    names += [] if policy.unit is None else [policy.unit]
    return read_table(path, names, number_columns=number_columns(declared))


def read_all(path: str, policy: "Policy") -> Any:
    """Return a whole table, the policy's columns as it declares them."""
    from corrdp.policy import number_columns
    from corrdp.tables import read_table

    return read_table(path, number_columns=number_columns(_declared(policy)))


def read_texts(path: str) -> Any:
    """Return a whole table as texts, for drafts: there is no policy yet."""
    from corrdp.tables import read_table

    return read_table(path, number_columns=())


def _declared(policy: "Policy", *, with_label: bool = True) -> list[Any]:
    label = [policy.label] if with_label and policy.label is not None else []
    return [*policy.features, *label]
