"""Settings without effect are reported with their paths, unless they have their default value."""

from pathlib import Path

import msgspec
import pytest

from bayplan import Plugin, filter_plugin
from bayplan.core.config import read_configuration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
HERE = Path(__file__).parent
CASES = (HERE / "ineffective_settings.txt").read_text().split("==== ")[1:]
"""Each has a name, a document without its head and, after a line of dashes, the warnings."""


class Limits(msgspec.Struct):
    most: int = 1


class Limited(Plugin):
    name = "Limited"
    arguments = Limits

    def __init__(self, args):
        self.most = args.most

    def filter(self, cycle, pod, node):
        return None


@filter_plugin
def tier(pod, node):
    return f"{pod} not on {node}"


def warnings(text, folder):
    path = folder / "config.yaml"
    path.write_text(text)
    return [line.removeprefix(f"{path}:") for line in read_configuration(path, [Limited, tier]).warning_lines()]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.partition("\n")[0])
def test_settings_without_effect_are_reported(case, tmp_path):
    document, _, expected = case.partition("\n")[2].partition("---- warnings:\n")
    assert warnings(HEAD + document, tmp_path) == expected.splitlines()


def test_the_default_configuration_has_no_warnings(tmp_path):
    defaults = (HERE.parent / "data" / "kube-scheduler" / "defaults.yaml").read_text()
    assert warnings(defaults, tmp_path) == []
