"""A recording runs no code, whatever it names and whoever reads it: plugins are the user's to name."""

import contextlib
import os
import sys
from pathlib import Path

import click
import msgspec
import pytest
from click.testing import CliRunner

from bayplan.answers.history.sources.recorded import import_recording, open_history
from bayplan.answers.replay.policies import recorded_policy
from bayplan.answers.replay.recorded_moments import RecordingMoments
from bayplan.answers.replay.recorded_plugins import NamedPlugins, digest_of, recorded_plugins
from bayplan.faces.cli import main
from bayplan.insight import Snapshot
from bayplan.running.recording import files
from bayplan.running.recording.entries import RecordedPlugin
from bayplan.running.recording.files import Recording, pack_recording
from bayplan.running.recording.frames import RecordingError

FORMER, NEWEST = sorted((Path(__file__).parents[1] / "data" / "recordings").glob("version-*.tar"))
CODE = """
from pathlib import Path
with Path({marker!r}).open("a") as file:
    file.write(__file__)
from bayplan import filter_plugin
@filter_plugin
def helper(pod, node):
    return None
"""


class Trap:
    """A folder that is the current one and on sys.path, full of code that leaves a mark, and a recording in it."""

    def __init__(self, folder):
        self.folder = folder
        self.marker = folder / "RAN"
        self.night = folder / "night"
        self.run = self.night / "run-000001"
        self.run.mkdir(parents=True)
        code = CODE.format(marker=str(self.marker))
        for place in ("helper.py", "evil/__init__.py", "evil/sub.py", "night/run-000001/helper.py", "aside/helper.py"):
            path = folder / place
            path.parent.mkdir(exist_ok=True)
            path.write_text(code)
        about = folder / "evil-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text("[bayplan.plugins]\nhelper-installed = evil:helper\n")

    def record(self, reference, digest, *, source=NEWEST, configuration=""):
        """Make the recording: a true one that names a plugin."""
        run = Recording.open(source)
        manifest = run.manifest
        manifest.setting = msgspec.structs.replace(
            manifest.setting, plugins=(RecordedPlugin(reference, ("helper",), digest),)
        )
        if configuration:
            manifest.setting = msgspec.structs.replace(manifest.setting, configuration=configuration)
        for name, read in run._segments:
            (self.run / name).write_bytes(read())
        files._write_manifest(self.run, manifest)
        if source is FORMER:
            document = msgspec.json.decode((self.run / files.MANIFEST).read_bytes())
            del document["checksum"], document["id"]
            (self.run / files.MANIFEST).write_bytes(msgspec.json.encode(document))
        return self.night

    @property
    def sprung(self):
        return self.marker.exists() or any("evil" in name for name in sys.modules)


@pytest.fixture
def trap(tmp_path, monkeypatch):
    found = Trap(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    yield found
    assert not found.sprung, found.marker.read_text() if found.marker.exists() else "a module was imported"


REFERENCES = {
    "in the folder": "helper.py",
    "in the recording": "night/run-000001/helper.py",
    "beside the manifest": "./helper.py",
    "with a name": "helper.py:helper",
    "absolute": "{folder}/helper.py",
    "in the recording, absolute": "{folder}/night/run-000001/helper.py",
    "through its parent": "aside/../helper.py",
    "upwards": "night/../aside/helper.py",
    "module": "helper",
    "package": "evil",
    "module of a package": "evil.sub",
    "module with a name": "evil.sub:helper",
    "entry point": "helper-installed",
    "not there": "/nowhere/helper.py",
    "nothing": "",
}
COMMANDS = (
    "replay night",
    "replay night --list",
    "replay night --step",
    "replay night --until 2100-01-01T00:00:00Z",
    "replay night --pod urgent --save before.bayplan",
    "replay night --emulated-version 1.37",
    "replay night --pack night.tar",
    "why urgent --recording night",
    "why urgent --recording night --moved",
    "why urgent --recording night --evicted",
    "explain urgent --from night",
    "doctor --from night",
    "explain --from night",
    "explain urgent --from night --at 2020-01-01T00:00:00Z",
    "explain urgent --from night --scheduler-name bayplan-scheduler",
    "why-not urgent node-0 --from night",
    "capacity --from night --cpu 1",
    "fit pod.yaml --from night",
    "check -f pod.yaml --from night",
    "drain node-0 --from night",
    "shrink --from night",
    "scale-up --from night",
    "what-if --remove-nodes node-0 --from night",
    "balance --from night",
    "usage --from night",
    "diff night night",
    "when urgent --from night",
    "when --all-pending --from night --history night",
    "upgrade-preview --from night",
    "snapshot saved.bayplan --from night",
    "manifests night",
    "ui --from night",
    "serve --from night",
    "mcp --from night",
    "simulate --history night --autoscaler none",
    "compare --history night --set NodeResourcesFit.weight=2 --autoscaler none",
    "history show night",
    "history import night --to imported",
    "history synthesize --from night --to made-up",
)
READS = {"path", "folder", "recording", "files"}
"""The names of parameters that can be a recording."""
OTHERS = {
    "cluster": "starts with manifests and snapshots",
    "completion": "reads no files",
    "sweep": "its file is the user's, and names plugins as a command line does",
    "conformance": "reads decisions of kube-scheduler",
    "extender": "reads a cluster",
    "perf": "reads workloads",
    "new": "writes a project",
    "record": "writes a history",
}


@pytest.mark.parametrize("digest", ["right", "0" * 64, ""], ids=["right hash", "wrong hash", "no hash"])
@pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)
def test_readers_run_no_code(trap, reference, digest):
    reference = reference.format(folder=trap.folder)
    hashed = digest_of(reference) if digest == "right" else digest
    assert hashed or digest != "right" or reference in {"/nowhere/helper.py", ""}
    night = trap.record(reference, hashed)
    (run,) = Recording.runs(night)
    for read in (
        lambda: recorded_policy(run),
        lambda: RecordingMoments([run]),
        lambda: recorded_policy(run, NamedPlugins(["bayplan.core.plugins.node_name"])),
    ):
        with pytest.raises(RecordingError, match="was recorded with plugin helper"):
            read()
    pack_recording(night, trap.folder / "night.tar")
    for path in (night, trap.folder / "night.tar"):
        import_recording(path, trap.folder / f"of-{path.name}")
        open_history(path)
        with contextlib.suppress(Exception):
            Snapshot.open(path)


@pytest.mark.parametrize(
    ("source", "reference"), [(FORMER, "helper.py"), (NEWEST, "helper-installed")], ids=["former file", "entry point"]
)
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run_no_code(trap, command, source, reference):
    trap.record(reference, digest_of(reference), source=source)
    (trap.folder / "pod.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: []}}")
    done = CliRunner().invoke(main, command.split(), input="q\n")
    assert not isinstance(done.exception, Exception) or isinstance(done.exception, SystemExit), done.exception
    assert "Traceback" not in done.output
    named = "name your own copy of it with --plugin" in done.output
    if command.split()[0] in {"ui", "serve", "mcp", "explain"} and "--scheduler-name" not in command:
        assert (done.exit_code, named) == (2, True), done.output
        assert done.output.count("\n") == 1


def test_configuration_loads_no_installed_plugin(trap):
    """A configuration of the user's loads the installed plugins that it enables; that of a recording doesn't."""
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: a, plugins: {multiPoint: {enabled: [{name: helper-installed}]}}}]\n"
    )
    night = trap.record("helper-installed", "0" * 64, configuration=text)
    manifest = Recording.open(night).manifest
    manifest.setting = msgspec.structs.replace(manifest.setting, plugins=())
    files._write_manifest(trap.run, manifest)
    for command in ("replay night", "why urgent --recording night", "explain urgent --from night"):
        done = CliRunner().invoke(main, command.split())
        assert done.exit_code == 2
        assert "helper-installed" in done.output


def test_all_commands_that_read_recordings_are_here():
    context = click.Context(main)
    tried = {command.split()[0] for command in COMMANDS}
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        commands = getattr(command, "commands", {"": command})
        reads = any(
            param.name in READS or "--history" in param.opts for each in commands.values() for param in each.params
        )
        assert not reads or name in tried or name in OTHERS, f"{name} may read recordings: add it to COMMANDS"


def test_plugin_is_loaded_if_the_user_names_it_and_is_the_recorded_one(tmp_path, monkeypatch):
    trap = Trap(tmp_path)
    monkeypatch.chdir(tmp_path)
    night = trap.record("/elsewhere/helper.py", digest_of("helper.py"))
    done = CliRunner().invoke(main, ["replay", str(night), "--plugin", "aside/helper.py"])
    assert "13 decisions" in done.output
    assert "all are the same" in done.output
    assert trap.marker.read_text() == str(tmp_path / "aside" / "helper.py")


def test_changed_plugin_is_named_before_it_is_loaded(trap):
    night = trap.record("/elsewhere/helper.py", "ab" * 32)
    given = digest_of("helper.py")
    for command in (["replay", night], ["why", "urgent", "--recording", night], ["explain", "urgent", "--from", night]):
        done = CliRunner().invoke(main, [*map(str, command), "--plugin", "helper.py"])
        assert done.exit_code == 2
        assert done.output.partition(": ")[2] == (
            f"{night}/run-000001 has plugin helper (helper.py, sha256 abababababababab), and helper.py has sha256 "
            f"{given[:16]}: name the file as it was when it was recorded\n"
        )


def test_compiled_file_beside_a_plugin_is_not_run(trap, tmp_path):
    """A file that was looked at may have another one in `__pycache__` that Python would take for it."""
    import py_compile

    good = tmp_path / "good.py"
    good.write_text(CODE.format(marker=str(trap.marker)))
    py_compile.compile(str(good), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    good.write_text("from bayplan import filter_plugin\n@filter_plugin\ndef helper(pod, node):\n    return None\n")
    run = Recording.open(trap.record("good.py", digest_of("good.py")))
    assert [each.name for each in recorded_policy(run, NamedPlugins(["good.py"])).plugins] == ["helper"]


def test_what_is_recorded_about_plugins_has_a_hash(tmp_path, monkeypatch):
    Trap(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = recorded_plugins(["helper.py:helper", "evil.sub"], [])
    assert [each.reference for each in found] == [f"{tmp_path}/helper.py:helper", "evil.sub"]
    assert [each.sha256 for each in found] == [digest_of("helper.py"), digest_of(os.path.join("evil", "sub.py"))]  # noqa: PTH118
    for name in [name for name in sys.modules if name.partition(".")[0] == "evil"]:
        del sys.modules[name]
