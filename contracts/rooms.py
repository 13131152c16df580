"""An import-linter contract: nobody climbs through windows.

A package of the library is a room; ``__init__`` and modules without underscore are its
doors. Layers say who may enter whose room; this says by which way. Private modules
at the top (``corrdp._json``) are the ground that all rooms stand on.
"""

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class ClosedRooms(Contract):
    """No package imports private modules of another package.

    Parameters
    ----------
    house : str
        The package whose packages are rooms.
    """

    type_name = "closed_rooms"
    house = fields.StringField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find every import that passes a wall."""
        del verbose
        found = []
        for importer in sorted(graph.modules):
            for imported in sorted(graph.find_modules_directly_imported_by(importer)):
                if self._is_window(importer, imported):
                    lines = graph.get_import_details(
                        importer=importer, imported=imported
                    )
                    found.append((importer, imported, lines[0]["line_number"]))
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print importer, imported module and line."""
        for importer, imported, line in check.metadata["found"]:
            output.print_error(f"- {importer} -> {imported} (l.{line})", bold=False)
        output.print_error(
            "Export the name from the package's __init__, or move it.", bold=False
        )

    def _is_window(self, importer: str, imported: str) -> bool:
        into = self._place(imported)
        if len(into) < 2 or not any(part.startswith("_") for part in into[1:]):
            return False
        return self._place(importer)[:1] != into[:1]

    def _place(self, module: str) -> list[Any]:
        house, *inside = module.split(".")
        return inside if house == self.house else []
