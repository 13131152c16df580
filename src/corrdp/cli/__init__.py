"""The ``corrdp`` command: one file per command, no mathematics.

Exit codes: 0 success, 1 an error that was not foreseen (told by its kind, without its
words), 2 wrong command line, 3 input refused (policy, data, budget),
4 guarantee void (a certificate or release that cannot be trusted), 130 and 143
interrupted; an interrupted command leaves no half-written output.
"""

from corrdp.cli._app import main

__all__ = ["main"]
