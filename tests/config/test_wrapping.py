"""The configuration in a file: alone, among other documents, or in a ConfigMap."""

import json
from pathlib import Path
from textwrap import indent

import pytest
from tests.support.tables import cases

from bayplan.core.config import ConfigurationError, read_configuration

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
                "config.yaml: has 3 configurations: pass the one you mean: config.yaml#a.yaml is data.a.yaml of "
                "ConfigMap kube-system/mine (line 5); config.yaml#b.yaml is data.b.yaml of ConfigMap kube-system/mine "
                "(line 8); config.yaml#3 is the KubeSchedulerConfiguration from line 12 on"
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


PROFILES = "profiles: [{{schedulerName: {}}}]\n"
THREE = "---\n".join(
    [
        config_map(a_yaml=KSC + PROFILES.format("first"), b_yaml=KSC + PROFILES.format("second")),
        KSC + PROFILES.format("third"),
        DEPLOYMENT,
    ]
)


@cases(
    "chosen, expected",
    {
        "by the key of a ConfigMap": ("b.yaml", "second"),
        "by the name of a profile": ("third", "third"),
        "by its number": ("1", "first"),
    },
)
def test_one_of_several_is_chosen(chosen, expected, tmp_path):
    path = tmp_path / "all.yaml"
    path.write_text(THREE)

    reading = read_configuration(path.with_name(f"all.yaml#{chosen}"))

    assert [profile.schedulerName for profile in reading.configuration.profiles] == [expected]
    assert "and nothing else of this file" in reading.warning_lines()[0]


def test_file_whose_name_has_a_number_sign_is_read(tmp_path):
    path = tmp_path / "old#1.yaml"
    path.write_text(name(KSC))

    assert read_configuration(path).configuration.profiles[0].schedulerName == "mine"


@cases(
    "text, chosen, problem",
    {
        "none": (
            THREE,
            "fourth",
            "has 3 configurations, and not exactly one fourth: pass the one you mean: all.yaml#a.yaml is data.a.yaml",
        ),
        "two": (f"{KSC}---\n{KSC}", "default-scheduler", "has 2 configurations, and not exactly one default-scheduler"),
        "of one": (name(KSC), "other", "all.yaml#mine is the KubeSchedulerConfiguration from line 1 on"),
    },
)
def test_unclear_choice_names_the_choices(text, chosen, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("all.yaml").write_text(text)

    with pytest.raises(ConfigurationError) as raised:
        read_configuration(Path(f"all.yaml#{chosen}"))

    assert problem in str(raised.value)


@cases(
    "given, problem",
    {
        "no file": ("none.yaml#1", "none.yaml: cannot be read: No such file or directory"),
        "a folder": (".#1", ".: cannot be read: Is a directory"),
        "a name that is too long": ("x" * 300 + "#1", "cannot be read: File name too long"),
    },
)
def test_choice_in_a_file_that_cannot_be_read(given, problem, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigurationError) as raised:
        read_configuration(Path(given))

    assert str(raised.value).endswith(problem)
