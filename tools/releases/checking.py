"""`make release-check DIR=folder`: checks a release as somebody does who has only the folder.

Checksums, bills of materials and provenance are read. Then everything is used: pip installs the wheel in a new virtual
environment, the source archive is built again, the plugin is installed by krew's manifest, and kubectl runs it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import yaml
from tools.archives import unpack
from tools.images.archive import read_image
from tools.problems import Problem, output
from tools.releases import krew
from tools.releases.bills import check_bill, parts_of_image, pins
from tools.releases.distributions import build_sources
from tools.releases.folder import ENVELOPE, KREW, NOTES, STATEMENT, Release, open_release, read
from tools.releases.provenance import check_envelope, check_statement


@click.command("check")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--key", type=click.Path(path_type=Path), help="The public key in PEM that signed the provenance.")
def check(folder: Path, key: Path | None) -> None:
    """Check a release."""
    release = open_release(folder)
    steps: tuple[Callable[[Release], str], ...] = (
        lambda release: f"{release.check_sums()} files have their checksums",
        lambda release: check_provenance(release, key),
        check_bills,
        check_chart_package,
        check_notes,
        check_sources,
        check_wheel,
        check_binary,
        check_plugin,
    )
    for step in steps:
        click.echo(f"ok: {step(release)}")


def check_provenance(release: Release, key: Path | None) -> str:
    """Check that the provenance is about all files, and its signature if there is a key."""
    place = release.folder / STATEMENT
    text = read(place)
    predicate = check_statement(text, str(place), release.artifacts())
    source = predicate["buildDefinition"]["resolvedDependencies"][0]
    said = f"built of {source['uri']}, commit {source['digest']['gitCommit']}"
    envelope = release.folder / ENVELOPE
    if key is not None:
        check_envelope(read(envelope), text, str(envelope), key)
        return f"{said}, signed with {key}"
    return f"{said}; {'signed, but no --key says by whom' if envelope.exists() else 'not signed'}"


def check_bills(release: Release) -> str:
    """Check that bills have their form, and what they are about. Images name the commit of the provenance."""
    given = json.loads(read(release.folder / STATEMENT))["predicate"]["buildDefinition"]["resolvedDependencies"][0]
    commit = given["digest"]["gitCommit"]
    text = read(release.bill(release.wheel))
    check_bill(text, str(release.bill(release.wheel)))
    said = {(each["name"], each["version"]) for each in json.loads(text)["components"]}
    locked = {(name, version) for name, version, _ in pins(read(release.requirements))}
    if said != locked:
        raise Problem(f"the bill of the wheel and the locked requirements differ in {min(said ^ locked)[0]}")
    counts = [f"{len(locked)} libraries"]
    for archive in release.images:
        place = release.bill(archive)
        text = read(place)
        check_bill(text, str(place))
        document, image = json.loads(text), read_image(archive)
        if image.revision != commit:
            raise Problem(f"{archive} is built of commit {image.revision}, but {STATEMENT} says {commit}")
        if document["metadata"]["component"]["bom-ref"] != image.digest:
            raise Problem(f"{place} is about another image than {archive.name}, whose digest is {image.digest}")
        listed = {each["purl"] for each in document["components"]}
        there = {str(each.purl) for each in parts_of_image(image)}
        if listed != there:
            raise Problem(f"{place} and {archive.name} differ in {min(listed ^ there)}")
        counts.append(f"{len(document['components'])} packages of {archive.name}")
    return f"bills of materials of {', '.join(counts)}"


def check_chart_package(release: Release) -> str:
    """Check that the chart's package has the version of the release."""
    try:
        with tarfile.open(release.chart) as tar:
            file = tar.extractfile("bayplan/Chart.yaml")
            chart = yaml.safe_load(file.read() if file else b"")
        versions = {chart["version"], chart["appVersion"]}
    except (OSError, tarfile.TarError, LookupError, TypeError, yaml.YAMLError) as error:
        raise Problem(f"{release.chart} is no package of the chart: {' '.join(str(error).split())}") from None
    if versions != {release.version}:
        raise Problem(f"{release.chart} has the versions {', '.join(sorted(map(str, versions)))}")
    return f"the chart has the version {release.version}"


def check_notes(release: Release) -> str:
    """Check that the release says what it changes."""
    lines = read(release.folder / NOTES).splitlines()
    if not any(line.startswith("- ") for line in lines):
        raise Problem(f"{release.folder / NOTES} names no change")
    return f"{sum(line.startswith('- ') for line in lines)} changes in {NOTES}"


def check_sources(release: Release) -> str:
    """Build the source archive again: the wheel has to have the same bytes."""
    seconds = json.loads(read(release.folder / STATEMENT))["predicate"]["buildDefinition"]["internalParameters"]
    with TemporaryDirectory() as temporary:
        place = Path(temporary)
        unpack(release.sources, place)
        (place / "built").mkdir()
        sources = place / release.sources.name.removesuffix(".tar.gz")
        built = build_sources(sources, place / "built", seconds["SOURCE_DATE_EPOCH"])
        (wheel,) = (path for path in built if path.suffix == ".whl")
        if wheel.read_bytes() != release.wheel.read_bytes():
            raise Problem(f"{release.sources.name} builds another wheel than {release.wheel.name}")
    return f"{release.sources.name} builds the same wheel"


def check_wheel(release: Release) -> str:
    """Install the wheel in a new environment, with the locked libraries and none but them, and run it."""
    with TemporaryDirectory() as temporary:
        environment = Path(temporary) / "venv"
        output([sys.executable, "-m", "venv", environment])
        pip = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        locked = [
            "--no-compile",
            "--only-binary",
            ":all:",
            "--require-hashes",
            "--requirement",
            str(release.requirements),
        ]
        output([*pip, *locked])
        output([*pip, "--no-index", "--find-links", str(release.folder), f"bayplan=={release.version}"])
        _expect_version([str(environment / "bin" / "bayplan")], release.version, environment)
        _expect_answer([str(environment / "bin" / "bayplan")], Path(temporary))
    return "pip installs the wheel with the locked libraries, and it answers"


def check_binary(release: Release) -> str:
    """Run the command that is one file."""
    if not release.binary.exists():
        return f"{release.binary.name} isn't there: not tried"
    with TemporaryDirectory() as temporary:
        program = Path(temporary) / "bayplan"
        shutil.copy(release.binary, program)
        program.chmod(0o755)
        _expect_version([str(program)], release.version, Path(temporary))
        _expect_answer([str(program)], Path(temporary))
    return f"{release.binary.name} answers"


def check_plugin(release: Release) -> str:
    """Install the plugin by krew's manifest from the folder, and run it with kubectl."""
    place = release.folder / KREW
    if not release.plugin.exists():
        return f"{release.plugin.name} isn't there: not tried"
    with TemporaryDirectory() as temporary:
        folder = Path(temporary)
        program = krew.install(read(place), str(place), release.folder, folder / "bin")
        command = ["kubectl", "bayplan"] if shutil.which("kubectl") else [str(program)]
        _expect_answer(command, folder)
    return f"{' '.join(Path(part).name for part in command)} answers, installed by {KREW}"


CLUSTER = """apiVersion: v1
kind: Node
metadata: {name: small}
status: {allocatable: {cpu: "1", memory: 1Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: large, namespace: default}
spec: {containers: [{name: main, image: main, resources: {requests: {cpu: "2"}}}]}
status: {phase: Pending}
"""


def _expect_version(command: list[str], version: str, folder: Path) -> None:
    said = _ran([*command, "--version"], folder).strip()
    if not said.endswith(version):
        raise Problem(f"{Path(command[0]).name} --version says {said!r}, but the release has the version {version}")


def _expect_answer(command: list[str], folder: Path) -> None:
    (folder / "cluster.yaml").write_text(CLUSTER)
    said = _ran([*command, "explain", "large", "--from", "cluster.yaml"], folder)
    if "Insufficient cpu" not in said:
        raise Problem(f"{' '.join(command)} explain says nothing of the cpu that lacks: {said.splitlines()[:1]}")


def _ran(command: list[str], folder: Path) -> str:
    """Return what a command prints, which finds programs of `folder`/bin and leaves nothing outside of the folder."""
    home = {"HOME": str(folder), "PEX_ROOT": str(folder / "pex"), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(  # noqa: S603 - what the release has
        command, cwd=folder, env={**os.environ, **home}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = (done.stderr.strip() or "nothing").splitlines()[-1]
        raise Problem(f"{' '.join(command)} ended with status {done.returncode}: {said}")
    return done.stdout
