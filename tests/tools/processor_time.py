"""Let pytest report the processor time of a test, its children included.

``-p processor_time``: what `list_slow.py` reads. Unlike the time on the wall it hardly
depends on what else the machine does meanwhile.
"""

import os

import pytest


def _spent() -> float:
    return sum(os.times()[:4])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    """Note what was spent before a test."""
    item.spent_before = _spent()
    yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Give each report (set-up, call, end) what was spent since the one before."""
    outcome = yield
    spent = _spent()
    outcome.get_result().duration = spent - item.spent_before
    item.spent_before = spent
