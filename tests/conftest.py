"""Counts the cases of each feature (`@pytest.mark.feature("PLUGIN: FEATURE")`), and reports how many passed."""

from collections import Counter


def pytest_runtest_setup(item):
    for mark in item.iter_markers("feature"):
        item.user_properties.append(("feature", mark.args[0]))


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
