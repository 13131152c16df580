"""Commands that the studio runs: each at most once, however often it is asked for."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corrdp._json import digest

_RUN = "from corrdp.cli import main; main()"


@dataclass(eq=False)
class Job:
    """One run of the command line."""

    words: tuple[str, ...]
    what: str
    output: str = ""
    code: int | None = None
    _process: subprocess.Popen[str] | None = field(default=None, repr=False)

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.code is None

    @property
    def succeeded(self) -> bool:
        """Whether it ended well."""
        return self.code == 0

    def run(self, folder: Path) -> None:
        """Run the command to its end and keep what it says."""
        try:
            process = subprocess.Popen(
                [sys.executable, "-c", _RUN, *self.words],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                encoding="utf-8",
            )
        except OSError as error:
            self.output = f"The command could not be started ({error.strerror})."
            self.code = -1
            return
        self._process = process
        self.output = process.communicate()[0]
        self.code = process.returncode

    def stop(self) -> None:
        """End the command; what it has paid stays paid."""
        if self._process is not None and self.running:
            self._process.terminate()


class Jobs:
    """All runs of a session, one per command: asking again returns the first.

    A double click, a reload and a second tab send the same command, and the same
    command is the same job. A run that failed may be asked for again: every command
    charges a ledger before it reads a row, and says so if it was charged.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def start(
        self,
        words: Sequence[str],
        what: str,
        *,
        about: str = "",
        extra: Sequence[str] = (),
    ) -> tuple[str, Job]:
        """Return the key and the job of a command, started if it is new.

        Its words, arguments of ``corrdp``, make it the command it is, and what it is
        about: the policy in the file that it reads. Extra arguments do not: a ledger is
        created by the first run that it pays for.
        """
        key = _key(words, about)
        with self._lock:
            known = self._jobs.get(key)
            if known is not None and (known.running or known.succeeded):
                return key, known
            job = Job((*words, *extra), what)
            self._jobs[key] = job
        threading.Thread(target=job.run, args=(self._folder,), daemon=True).start()
        return key, job

    def found(self, words: Sequence[str], what: str, about: str) -> None:
        """Take a command for done that an earlier session has run."""
        job = Job(tuple(words), what, "Done by an earlier start of the studio.", 0)
        with self._lock:
            self._jobs.setdefault(_key(words, about), job)

    def get(self, key: str) -> Job | None:
        """Return a job by its key."""
        return self._jobs.get(key)

    def finished(self, words: Sequence[str], about: str = "") -> bool:
        """Return whether a command has ended well."""
        job = self._jobs.get(_key(words, about))
        return job is not None and job.succeeded

    @property
    def running(self) -> bool:
        """Whether some command has not ended."""
        return any(job.running for job in self._jobs.values())

    def stop(self) -> None:
        """End everything that runs."""
        for job in self._jobs.values():
            job.stop()


def _key(words: Sequence[str], about: str) -> str:
    return digest({"words": list(words), "about": about})[:16]
