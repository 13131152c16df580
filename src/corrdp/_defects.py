"""What is told of an error that nobody foresaw: its kind and place, not its words.

Libraries quote what they stumble over, which may be a cell of a private table. Of files
that cannot be read or written the path and the system's words are told.
"""

import traceback

WITHHELD = "Its own words are withheld, since they may quote a row."


def defect_text(error: Exception) -> str:
    """Return where an error came from and of what kind it is."""
    kind = type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        kind += f": {error.strerror} {error.filename or ''}".rstrip()
    return "".join(traceback.format_tb(error.__traceback__)) + (
        f"corrdp: stopped by an error that it did not foresee ({kind}). {WITHHELD} "
        "Please report the lines above, without the data."
    )
