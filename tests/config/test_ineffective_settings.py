"""Settings that change nothing are told, each with its path; those that are the default anyway are not."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bayplan import Plugin, filter_plugin
from bayplan.config import read_configuration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
HERE = Path(__file__).parent
CASES = (HERE / "ineffective_settings.txt").read_text().split("==== ")[1:]
"""Each with a name, a document without its head, and after a line of dashes what is told of it."""


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
def test_what_has_no_effect_is_told(case, tmp_path):
    document, _, told = case.partition("\n")[2].partition("---- is told:\n")
    assert warnings(HEAD + document, tmp_path) == told.splitlines()


def test_the_complete_default_configuration_says_nothing(tmp_path):
    defaults = (HERE.parent / "data" / "kube-scheduler" / "defaults.yaml").read_text()
    assert warnings(defaults, tmp_path) == []
