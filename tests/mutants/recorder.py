"""A pytest plugin that writes down which tests ran, and why the first one failed.

Loaded by the runner of planted bugs alone; it also refuses to start if `corrdp` would
be imported from anywhere but the copied tree.
"""

import importlib.util
import json
import os
from pathlib import Path

import pytest

OUTPUT = "CORRDP_MUTANT_RECORD"
SOURCE = "CORRDP_MUTANT_SOURCE"


class Recorder:
    """Collects outcomes and writes them when the session ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ran: list[str] = []
        self.failed: dict[str, str] = {}
        self.collection_errors: list[str] = []

    def pytest_collectreport(self, report):
        if report.failed:
            self.collection_errors.append(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = yield
        if report.when == "call" and report.outcome != "skipped":
            self.ran.append(report.nodeid)
        if report.failed and report.nodeid not in self.failed:
            kind = call.excinfo.typename if call.excinfo else "strict xfail"
            self.failed[report.nodeid] = kind
        return report

    def pytest_sessionfinish(self):
        found = {
            "ran": self.ran,
            "failed": self.failed,
            "collection_errors": self.collection_errors,
        }
        self.path.write_text(json.dumps(found), encoding="utf-8")


def pytest_configure(config):
    source = Path(os.environ[SOURCE]).resolve()
    spec = importlib.util.find_spec("corrdp")
    if spec is None or source not in Path(str(spec.origin)).resolve().parents:
        pytest.exit("corrdp is not imported from the copied tree", returncode=4)
    config.pluginmanager.register(Recorder(Path(os.environ[OUTPUT])))
