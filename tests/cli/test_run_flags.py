"""The flags of kube-scheduler. Each works, is accepted with a warning, or is rejected with the reason."""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from bayplan.faces.cli import main
from bayplan.faces.cli.run_flags import FLAGS, FlagType, Treatment
from bayplan.faces.cli.run_options import adapt_to_click
from bayplan.foundations.log_fields import SCORES

FLAGS_TXT = (Path(__file__).parents[1] / "data" / "kube-scheduler" / "flags.txt").read_text().splitlines()
KINDS = {
    "": FlagType.BOOL,
    "int": FlagType.INT,
    "Level": FlagType.INT,
    "float": FlagType.FLOAT,
    "duration": FlagType.DURATION,
    "strings": FlagType.STRINGS,
    "namedCertKey": FlagType.STRINGS,
    "stringToString": FlagType.STRINGS,
    "colonSeparatedMultimapStringString": FlagType.STRINGS,
}
VALUES = {
    FlagType.STRING: "x",
    FlagType.STRINGS: "x",
    FlagType.FILE: "file",
    FlagType.INT: "7",
    FlagType.FLOAT: "7.5",
    FlagType.DURATION: "7s",
    FlagType.BOOL: "true",
}


def run(*arguments):
    return CliRunner().invoke(main, ["run", *map(str, arguments)])


def recorded_flags():
    """The group, name and type of each flag in kube-scheduler's help."""
    group = ""
    for line in FLAGS_TXT:
        if not line.startswith(" "):
            group = line.rstrip(":")
        elif found := re.match(r"\s+(?:-\w, )?--([\w-]+)\s*(\S*)", line):
            yield group, found[1], found[2]


def test_all_flags_of_kube_scheduler_exist_in_their_groups():
    assert [(flag.group, flag.name) for flag in FLAGS] == [(group, name) for group, name, _ in recorded_flags()]


@pytest.mark.parametrize(
    ("flag", "type_"), [(flag, t) for flag, (_, _, t) in zip(FLAGS, recorded_flags(), strict=True)]
)
def test_flags_have_the_types_of_kube_scheduler(flag, type_):
    if flag.name in {"tls-curve-preferences", "version"}:  # a list of numbers; a boolean with a third value
        return
    expected = KINDS.get(type_, FlagType.STRING)
    files = {FlagType.FILE, FlagType.YAML_FILE, FlagType.OUTPUT_FILE}
    assert flag.type is expected or (expected is FlagType.STRING and flag.type in files)


WARNED = [flag for flag in FLAGS if flag.treatment is Treatment.WARNED]
REJECTED = [flag for flag in FLAGS if flag.treatment is Treatment.REJECTED]


@pytest.mark.parametrize("flag", WARNED, ids=lambda flag: flag.name)
def test_a_flag_without_effect_is_accepted_with_a_warning(flag, tmp_path):
    value = {"leader-elect-lease-duration": "30s", "leader-elect-resource-lock": "leases"}.get(flag.name)
    done = run(f"--{flag.name}={value or VALUES[flag.type]}", "--write-config-to", tmp_path / "written.yaml")
    assert done.exit_code == 0, done.output
    assert done.stderr == f"bayplan run: warning: --{flag.name} has no effect: {flag.text}\n"


@pytest.mark.parametrize("flag", REJECTED, ids=lambda flag: flag.name)
def test_an_unsupported_flag_is_rejected_with_the_reason(flag, tmp_path):
    done = run(f"--{flag.name}=x", "--write-config-to", tmp_path / "written.yaml")
    assert done.exit_code == 2
    assert done.stderr == f"bayplan run: --{flag.name} is not supported: {flag.text}\n"
    assert not (tmp_path / "written.yaml").exists()


@pytest.mark.parametrize(
    "argument", ["--profiling=false", "--leader-elect=false", "--kube-api-content-type=application/json"]
)
def test_a_flag_that_changes_nothing_has_no_warning(argument, tmp_path):
    done = run(argument, "--write-config-to", tmp_path / "written.yaml")
    assert (done.exit_code, done.stderr) == (0, "")


def test_warnings_with_the_same_reason_are_one_line(tmp_path):
    flags = ("--log-flush-frequency=1s", "--log-json-info-buffer-size=1", "--kube-api-content-type=x")
    done = run(*flags, "--write-config-to", tmp_path / "written.yaml")
    assert done.stderr.splitlines() == [
        "bayplan run: warning: --kube-api-content-type has no effect: Bayplan always uses JSON",
        (
            "bayplan run: warning: --log-flush-frequency, --log-json-info-buffer-size have no effect: the log is not "
            "buffered"
        ),
    ]


@pytest.mark.parametrize(
    ("arguments", "path", "value"),
    [
        (["--kube-api-qps=7.5"], "clientConnection.qps", 7.5),
        (["--kube-api-qps=7", "--kube-api-burst=9"], "clientConnection.burst", 9),
        (["--kubeconfig", "/here"], "clientConnection.kubeconfig", "/here"),
        (["--leader-elect=false"], "leaderElection.leaderElect", False),
        (["--leader-elect-lease-duration=30s"], "leaderElection.leaseDuration", "30s"),
        (["--leader_elect_renew_deadline=9s"], "leaderElection.renewDeadline", "9s"),
        (["--leader-elect-retry-period=1s"], "leaderElection.retryPeriod", "1s"),
        (["--leader-elect-resource-name=mine"], "leaderElection.resourceName", "mine"),
        (["--leader-elect-resource-namespace=mine"], "leaderElection.resourceNamespace", "mine"),
        (["--profiling=false"], "enableProfiling", False),
        (["--contention-profiling=false"], "enableContentionProfiling", False),
        (["--scheduler-name=mine"], "profiles", "mine"),
    ],
    ids=lambda each: each if isinstance(each, str) else None,
)
def test_flags_change_the_configuration(arguments, path, value, tmp_path):
    done = run(*arguments, "--write-config-to", tmp_path / "written.yaml")
    assert done.exit_code == 0, done.output
    found = yaml.safe_load((tmp_path / "written.yaml").read_text())
    for name in path.split("."):
        found = found[name]
    assert (found[0]["schedulerName"] if path == "profiles" else found) == value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--secure-port=many"], "'many' is not a valid integer"),
        (["--secure-port=70000"], "--secure-port: expected a port from 0 (no endpoints) to 65535, got 70000"),
        (["--bind-address=here"], "--bind-address: 'here' does not appear to be an IPv4 or IPv6 address"),
        (["--tls-min-version=VersionTLS10"], "expected VersionTLS12 or VersionTLS13, got 'VersionTLS10'"),
        (["--tls-cert-file=x"], "--tls-cert-file and --tls-private-key-file must be given together"),
        (["--authorization-always-allow-paths=/a,/b*c"], "only a trailing * is allowed, not '/b*c'"),
        (["--leader-elect=perhaps"], "'perhaps' is not a valid boolean"),
        (["--leader-elect-lease-duration=15"], "'15': expected a duration such as 10s, 1m30s or 250ms"),
        (["--leader-elect", "false"], "Got unexpected extra argument (false)"),
        (["-v=lots"], "'lots' is not a valid integer"),
        (["--scheduler-name", "Bad Name"], "--scheduler-name 'Bad Name': a lowercase RFC 1123 subdomain must"),
        (["--policy-config-file", "x"], "was removed from kube-scheduler in 1.23: write a KubeSchedulerConfiguration"),
        (["--algorithm-provider=x"], "choose plugins in the profiles of a KubeSchedulerConfiguration"),
        (["--colour=red"], "No such option '--colour'"),
        (["--kube-api-qps=nan"], "--kube-api-qps: expected a number, not nan"),
        (["--kube-api-burst=-1"], "clientConnection.burst: Invalid value: -1: must not be negative"),
        (["--logging-format=xml"], "--logging-format: expected text or json, got 'xml'"),
        (["--pod-max-in-unschedulable-pods-duration=0s"], "must be greater than zero, not 0s"),
        (
            ["--leader-elect", "--leader-elect-lease-duration=5s"],
            'leaderElection.leaseDuration: Invalid value: "5s": must be greater than renewDeadline, which is 10s',
        ),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else None,
)
def test_invalid_values_are_rejected(arguments, message, tmp_path):
    done = run(*arguments, "--write-config-to", tmp_path / "written.yaml")
    assert done.exit_code == 2
    assert message in done.stderr


def test_an_empty_value_means_not_given(tmp_path):
    flags = ("--config=", "--kubeconfig=", "--master=", "--feature-gates=", "--logging-format=")
    done = run(*flags, "--write-config-to", tmp_path / "written.yaml")
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("given", "adapted"),
    [
        ("-v", "-v"),
        ("-vv", "-vv"),
        ("-v -v", "-v -v"),
        ("-v=4", "--v=4"),
        ("-v4", "--v=4"),
        ("-v 4", "--v=4"),
        ("--v=4", "--v=4"),
        ("--v 4", "--v 4"),
        ("-v --seed 4", "-v --seed 4"),
        ("--leader-elect", "--leader-elect=true"),
        ("--leader-elect --seed 4", "--leader-elect=true --seed 4"),
        ("--leader-elect=false", "--leader-elect=false"),
        ("--write_config_to=a_b", "--write-config-to=a_b"),
        ("--version", "--version=true"),
        ("-- -v4", "-- -v4"),
    ],
)
def test_arguments_are_parsed_like_in_go(given, adapted):
    assert adapt_to_click(given.split()) == adapted.split()


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        ([], logging.WARNING),
        (["-v"], logging.INFO),
        (["-vv"], logging.DEBUG),
        (["-v=1"], logging.WARNING),
        (["-v", "2"], logging.INFO),
        (["--v=3"], logging.INFO),
        (["-v4"], logging.DEBUG),
        (["--v", "10"], SCORES),
        (["-v", "--v=5"], logging.DEBUG),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else logging.getLevelName(each),
)
def test_log_levels(arguments, level, tmp_path):
    assert run(*arguments, "--write-config-to", tmp_path / "written.yaml").exit_code == 0
    assert logging.getLogger("bayplan").level == level


@pytest.mark.parametrize(
    ("gates", "error"),
    [
        ("SchedulerQueueingHints=true", ""),
        ("kube:SchedulerQueueingHints=true,AllAlpha=false", ""),
        ("KubeletTracing=true", ""),
        ("GangScheduling=F", ""),
        ("GenericWorkload=true,GangScheduling=true", ""),
        ("GangScheduling=true,GangScheduling=false", ""),
        ("GangScheduling=true", "bayplan run: --feature-gates: GangScheduling=true: requires GenericWorkload=true"),
        ("Nonesuch=true", "bayplan run: --feature-gates: unknown feature gate 'Nonesuch'"),
        (
            "SchedulerQueueingHint=true",
            (
                "bayplan run: --feature-gates: unknown feature gate 'SchedulerQueueingHint': did you mean "
                "'SchedulerQueueingHints'?"
            ),
        ),
        (
            "SchedulerAsyncPreemption=false",
            (
                "bayplan run: --feature-gates: SchedulerAsyncPreemption=false: not supported: Bayplan never lets an "
                "attempt wait for evictions"
            ),
        ),
        ("SchedulerAsyncAPICalls=true", ""),
        ("PodLevelResources", "bayplan run: --feature-gates: PodLevelResources: expected true or false, got ''"),
        ("PodLevelResources=on", "bayplan run: --feature-gates: PodLevelResources: expected true or false, got 'on'"),
    ],
)
def test_feature_gates(gates, error, tmp_path):
    done = run("--feature-gates", gates, "--write-config-to", tmp_path / "written.yaml")
    assert (done.exit_code, done.stderr.rstrip()) == (2 if error else 0, error)


def test_all_errors_are_reported_at_once(tmp_path):
    policy = tmp_path / "policy.py"
    policy.write_text("x = 1\n")
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\ncolour: red\n")
    done = run("--emulated-version=1.30", "--feature-gates=A=true,B=true", "--plugin", policy, "--config", config)
    lines = done.stderr.splitlines()
    assert done.exit_code == 2
    assert [line for line in lines if "unknown feature gate" in line] == lines[1:3]
    assert lines[0] == "bayplan run: --emulated-version: unknown version '1.30': expected one of 1.36, 1.37"
    assert f"{policy}: has no plugin" in lines[3]
    assert lines[4].startswith(f"{config}:3: colour: unknown field")
    assert len(lines) == 5


def test_help_lists_the_groups_of_kube_scheduler():
    done = run("--help")
    assert done.exit_code == 0
    assert re.findall(r"^([A-Z][\w' ]+):$", done.output, re.MULTILINE) == [
        "Bayplan's own options",
        *dict.fromkeys(flag.group for flag in FLAGS),
    ]
    for flag in FLAGS:
        assert (f"--{flag.name}" in done.output) == (flag.treatment is not Treatment.REJECTED)


def test_version():
    assert run("--version").output.startswith("bayplan, version ")


def test_help_imports_no_slow_modules():
    script = (
        "import sys; from bayplan.faces.cli import main\n"
        "try: main(['run', '--help'])\n"
        "except SystemExit: print([name for name in ('numpy', 'aiohttp', 'asyncio.events') if name in sys.modules][:2])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "100"}
    )
    assert "numpy" not in done.stdout.splitlines()[-1]
    assert "aiohttp" not in done.stdout.splitlines()[-1]
