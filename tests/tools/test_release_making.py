"""`make release` writes everything or nothing, and krew's manifest installs a plugin that kubectl runs."""

import os
import platform
import shutil
import subprocess
from dataclasses import replace

import pytest
from click.testing import CliRunner
from released import git, repository
from tests.support.tables import cases
from tools.commit import read_commit
from tools.problems import Problem
from tools.releases import krew, making
from tools.releases.checking import check
from tools.releases.distributions import export
from tools.releases.folder import Release
from tools.releases.making import make

PLUGIN = '#!/bin/sh\necho "the plugin says $1"\n'


@cases(
    "tags, change, message",
    {
        "a tag that isn't the version": (["v1.0.0"], None, "the commit has the tag v1.0.0"),
        "an unclean tree": (["v1.2.3"], "new", "the tree isn't clean: new"),
        "notes are missing": (["v1.2.3"], "CHANGELOG.md", "has no section"),
        "the folder is there": (["v1.2.3"], "out", "is already there"),
        "no such key": (["v1.2.3"], "key", "gone.pem: No such file or directory"),
    },
)
def test_bad_input_is_one_line_and_writes_nothing(tags, change, message, tmp_path, monkeypatch):
    folder = repository(tmp_path / "r", *tags)
    target = tmp_path / "to" / "release"
    arguments = ["--folder", str(target), "--no-images"]
    if change == "new":
        (folder / "new").write_text("x")
    if change == "out":
        target.mkdir(parents=True)
    if change == "key":
        arguments += ["--key", str(tmp_path / "gone.pem")]
    commit = read_commit(folder)
    monkeypatch.setattr(making, "read_commit", lambda: commit)
    monkeypatch.setattr(making, "check_chart", lambda *_: None)
    monkeypatch.setattr(making, "build_twice", lambda *_: pytest.fail("it has begun to build"))
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "CHANGELOG.md").write_text("## [1.2.2]" if change == "CHANGELOG.md" else "## [1.2.3]\n- a\n")
    monkeypatch.setattr(making, "ROOT", notes)
    result = CliRunner().invoke(make, arguments)
    assert result.exit_code == 1
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert list((tmp_path / "to").rglob("*")) == ([target] if change == "out" else [])


def test_what_is_built_is_what_is_committed(tmp_path):
    folder = repository(tmp_path / "r")
    (folder / "CHANGELOG.md").write_text("changed")
    (folder / "ignored").write_text("ignored")
    export(read_commit(folder), tmp_path / "exported")
    assert (tmp_path / "exported" / "CHANGELOG.md").read_text() == "## [1.2.3]\n\n- More.\n"
    assert not (tmp_path / "exported" / "ignored").exists()
    assert git(folder, "status", "--porcelain") != ""


@pytest.fixture
def index(tmp_path):
    """A folder with an archive of a plugin and its manifest, as a release has them."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name, text in (("program", PLUGIN), ("LICENSE", "free")):
        (tmp_path / name).write_text(text)
    (tmp_path / "program").chmod(0o755)
    release = Release(folder, "1.2.3")
    krew.pack_plugin(tmp_path / "program", tmp_path / "LICENSE", release.plugin, 7)
    return release


def manifest(release):
    return krew.manifest("1.2.3", [release.plugin], "https://releases.example/v1.2.3/", "https://bayplan.example")


@pytest.mark.kubectl
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="no kubectl on the PATH")
def test_kubectl_runs_what_krews_manifest_installs(index, tmp_path):
    text = manifest(index)
    assert f"uri: https://releases.example/v1.2.3/{index.plugin.name}\n" in text
    program = krew.install(text, "m", index.folder, tmp_path / "bin")
    assert program.name == "kubectl-bayplan"
    environment = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    done = subprocess.run(["kubectl", "bayplan", "hello"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "the plugin says hello\n"


@cases(
    "change, message",
    {
        "no YAML": (lambda text: text + "\t: [", "m is no manifest of krew: "),
        "no platforms": (lambda text: text.replace("platforms", "places"), "m is no manifest of krew: 'platforms'"),
        "another kind": (
            lambda text: text.replace("kind: Plugin", "kind: Index"),
            "m is no manifest of krew for the plugin",
        ),
        "another machine": (lambda text: text.replace("os: ", "os: not-"), "m has no platform "),
        "another digest": (lambda text: text.replace("sha256: ", "sha256: 0"), "which isn't there with the SHA-256"),
        "another archive": (lambda text: text.replace(".tar.gz", ".zip"), "which isn't there with the SHA-256"),
    },
)
def test_a_changed_manifest_installs_nothing(change, message, index, tmp_path):
    with pytest.raises(Problem) as refused:
        krew.install(change(manifest(index)), "m", index.folder, tmp_path / "bin")
    assert message in refused.value.message
    assert "\n" not in refused.value.message
    assert not (tmp_path / "bin").exists()


def test_archives_are_named_after_the_machine_as_go_names_it(index, monkeypatch):
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert index.plugin.name == "kubectl-bayplan-1.2.3-linux-arm64.tar.gz"
    assert replace(index, version="2").binary.name == "bayplan-2-linux-arm64.pex"


def test_what_is_no_release_is_one_line(tmp_path):
    result = CliRunner().invoke(check, [str(tmp_path)])
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)
    assert "is no release" in result.stderr
