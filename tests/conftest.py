"""One hypothesis profile for all tests: no luck and no clock.

Tests must not depend on how busy the machine is, so there is no deadline and no health
check that measures time; nor on chance, so examples are derived from the test itself.
``HYPOTHESIS_PROFILE=fresh pytest ...`` searches with new seeds, by hand.
"""

import itertools
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

# Tests run beside each other; threads of matrix products would wait for each other.
# Before numpy and torch are imported, which read it once; for processes of tests too.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_threads, "1")

_CALM = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("fixed", derandomize=True, database=None, **_CALM)
settings.register_profile("fresh", derandomize=False, print_blob=True, **_CALM)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items):
    """Mark what took long in the timed run that tests/tools/list_slow.py read."""
    slow = set((_HERE / "slow.txt").read_text("utf-8").split())
    for item in items:
        module = item.nodeid.split("::")[0].removesuffix(".py").replace("/", ".")
        parts = item.nodeid.split("::")[1:]
        name = ".".join([module, *parts]).split("[")[0]
        if name in slow:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def browser_session(tmp_path_factory):
    """Yield one browser for all tests of pages."""
    from browser import started_driver

    driver = started_driver(tmp_path_factory.mktemp("profile"))
    yield driver
    driver.quit()


@pytest.fixture
def driver(browser_session):
    """Return the browser on an empty page, without what it logged for other tests."""
    browser_session.get("about:blank")
    browser_session.get_log("browser")
    return browser_session


@pytest.fixture
def stepping_clock(monkeypatch):
    """Let a hundredth of a second pass whenever an audit looks at the clock.

    Time limits then cut at the same place on every machine, however busy.
    """
    looks = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: 0.01 * next(looks))
    monkeypatch.setattr("corrdp.auditing._challenge.time", clock)
