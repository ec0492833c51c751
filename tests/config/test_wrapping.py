"""The configuration in a file: alone, among other documents, or in a ConfigMap."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import indent

import pytest
from tests.support.tables import cases

from bayplan.config import ConfigurationError, read_configuration

KSC = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
FAULTY = f"{KSC}profiles:\n- plugins: {{filter: {{enabled: [{{name: Nonesuch}}]}}}}\n"
POLICY = "kind: Policy\napiVersion: v1\npriorities: []\n"
VOLCANO = 'actions: "enqueue, allocate"\ntiers:\n- plugins:\n  - name: gang\n'


def config_map(**data):
    entries = "".join(f"  {key.replace('_', '.')}: |\n{indent(text, '    ')}" for key, text in data.items())
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: mine, namespace: kube-system}}\ndata:\n{entries}"


ACCOUNT = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: mine, namespace: kube-system}\n"
DEPLOYMENT = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: mine, namespace: kube-system}\nspec: {}\n"


def name(text):
    return f"{text}profiles: [{{schedulerName: mine}}]\n"


def read(text, folder, monkeypatch):
    monkeypatch.chdir(folder)
    Path("config.yaml").write_text(text)
    return read_configuration(Path("config.yaml"))


@pytest.mark.parametrize(
    ("text", "where"),
    [
        pytest.param(
            config_map(config_yaml=name(KSC)),
            "data.config.yaml of ConfigMap kube-system/mine (line 5)",
            id="a ConfigMap",
        ),
        pytest.param(
            "---\n".join([ACCOUNT, config_map(config_yaml=name(KSC)), DEPLOYMENT]),
            "data.config.yaml of ConfigMap kube-system/mine (line 9)",
            id="beside a Deployment",
        ),
        pytest.param(
            "---\n".join([ACCOUNT, name(KSC), DEPLOYMENT]),
            "the KubeSchedulerConfiguration from line 5 on",
            id="a document of several",
        ),
        pytest.param(
            config_map(policy_cfg=POLICY, other="x: y\n", config_yaml=name(KSC)),
            "data.config.yaml of ConfigMap kube-system/mine (line 11)",
            id="beside a Policy",
        ),
        pytest.param(
            json.dumps({
                "apiVersion": "v1",
                "kind": "List",
                "items": [
                    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a.yaml": name(KSC)}}
                ],
            }),
            "data.a.yaml of ConfigMap x (line 1)",
            id="a list in JSON",
        ),
    ],
)  # fmt: skip
def test_the_only_configuration_is_read(text, where, tmp_path, monkeypatch):
    reading = read(text, tmp_path, monkeypatch)
    assert reading.configuration.profiles[0].schedulerName == "mine"
    assert reading.warning_lines() == [f"config.yaml: warning: reads {where} and nothing else of this file"]


@cases(
    "text, expected",
    {
        "several": (
            config_map(a_yaml=KSC, b_yaml=KSC) + "---\n" + KSC,
            (
                "config.yaml: has 3 configurations: save the one you mean in a file of its own: data.a.yaml of "
                "ConfigMap kube-system/mine (line 5); data.b.yaml of ConfigMap kube-system/mine (line 8); the "
                "KubeSchedulerConfiguration from line 12 on"
            ),
        ),
        "none": (
            config_map(a="x: y\n", b="z\n") + "---\n" + DEPLOYMENT,
            (
                "config.yaml: has no KubeSchedulerConfiguration: it has ConfigMap kube-system/mine (keys: a, b), "
                "Deployment kube-system/mine"
            ),
        ),
        "an error in it": (
            "---\n".join([ACCOUNT, config_map(config_yaml=FAULTY)]),
            (
                "config.yaml:13: profiles[0].plugins.filter.enabled[0].name: plugin 'Nonesuch' does not exist: load "
                "your own plugin with --plugin FILE"
            ),
        ),
        "broken YAML in it": (
            config_map(config_yaml=f"{KSC}profiles: [\n"),
            "config.yaml:9: expected a value, but found the end of the file",
        ),
        "broken YAML in JSON": (
            json.dumps({"kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": f"{KSC}profiles: ["}}),
            "config.yaml:1: data.a: expected a value, but found the end of the file",
        ),
        "a document without a kind": (
            f"{KSC}---\nparallelism: 3\n",
            "config.yaml:4: another document starts here: expected only one in the file",
        ),
        "Volcano's": (
            config_map(conf=VOLCANO),
            (
                "config.yaml:6: actions: this is the configuration of Volcano's or of NVIDIA's KAI scheduler: expected "
                "a KubeSchedulerConfiguration"
            ),
        ),
        "a template": (
            f"{{{{- if .Values.enabled }}}}\n{config_map(config_yaml=KSC)}{{{{- end }}}}\n",
            "config.yaml:1: expected a value, but found '-': render the template first, as with helm template",
        ),
        "another object": (
            DEPLOYMENT,
            (
                'config.yaml:1: apiVersion: Unsupported value: "apps/v1": supported values: '
                '"kubescheduler.config.k8s.io/v1", "kubescheduler.config.k8s.io/v1beta1", '
                '"kubescheduler.config.k8s.io/v1beta2", "kubescheduler.config.k8s.io/v1beta3"\n'
                'config.yaml:2: kind: Unsupported value: "Deployment": supported values: "KubeSchedulerConfiguration"'
            ),
        ),
    },
)
def test_other_files_are_refused(text, expected, tmp_path, monkeypatch):
    with pytest.raises(ConfigurationError) as error:
        read(text, tmp_path, monkeypatch)
    assert str(error.value) == expected
