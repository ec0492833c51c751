"""The settings of all tests, and the report of how many cases of each feature passed.

A test names its feature with `@pytest.mark.feature("PLUGIN: FEATURE")`.
"""

import logging
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

# Hypothesis measures no time, because other processes may take it.
settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tests")


@pytest.hookimpl(wrapper=True)
def pytest_xdist_auto_num_workers():
    """Two processes for each CPU, because many tests wait; but at most four, because some measure time."""
    return min((yield) * 2, 4)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Begins with the tests that may take longest, so that no process is left alone with one of them at the end."""
    items.sort(key=lambda item: item.get_closest_marker("timeout") is None)


def pytest_runtest_setup(item):
    for mark in item.iter_markers("feature"):
        item.user_properties.append(("feature", mark.args[0]))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown():
    """Takes back the level that commands such as `bayplan run` give the log, if a test calls them in this process."""
    logging.getLogger("bayplan").setLevel(logging.NOTSET)


def pytest_terminal_summary(terminalreporter):
    counts = Counter(
        value
        for report in terminalreporter.stats.get("passed", ())
        if report.when == "call"
        for name, value in report.user_properties
        if name == "feature"
    )
    if counts:
        terminalreporter.section("cases that passed, by feature")
        for feature, number in sorted(counts.items()):
            terminalreporter.line(f"{number:5} {feature}")
