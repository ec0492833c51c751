"""The manifest by which krew installs `kubectl bayplan`, and what krew does with it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from tools.archives import unpack
from tools.problems import Problem
from tools.releases.binary import PLUGIN
from tools.releases.chart import pack
from tools.releases.folder import digest_of, system

KREW_API = "krew.googlecontainertools.github.com/v1alpha2"
DESCRIPTION = """Says why pods are pending and what would help, what other nodes or another scheduler would change, and
when pods will start, by making kube-scheduler's own decisions. It only reads. It needs Python on the machine.
"""


def pack_plugin(binary: Path, license_file: Path, target: Path, seconds: int) -> None:
    """Write the archive that krew unpacks."""
    pack({PLUGIN: binary, "LICENSE": license_file}, target, seconds)


def manifest(version: str, archives: list[Path], url: str, home: str) -> str:
    """Return the manifest of a version, whose archives are below a URL. Their names end with what they run on."""
    platforms = []
    for archive in archives:
        match = re.search(r"-([a-z]+)-([a-z0-9_]+)\.tar\.gz$", archive.name)
        assert match, "a release names its archives so"
        platforms.append(
            {
                "selector": {"matchLabels": {"os": match[1], "arch": match[2]}},
                "uri": f"{url.rstrip('/')}/{archive.name}",
                "sha256": digest_of(archive),
                "bin": PLUGIN,
                "files": [{"from": name, "to": "."} for name in (PLUGIN, "LICENSE")],
            }
        )
    document = {
        "apiVersion": KREW_API,
        "kind": "Plugin",
        "metadata": {"name": "bayplan"},
        "spec": {
            "version": f"v{version}",
            "homepage": home,
            "shortDescription": "Explain pending pods and try changes",
            "description": DESCRIPTION,
            "platforms": platforms,
        },
    }
    return yaml.safe_dump(document, sort_keys=False, width=120)


def install(text: str, what: str, archives: Path, folder: Path) -> Path:
    """Install the plugin of a manifest for this machine, as krew does, and return its program.

    Archives are taken from a folder, by the last part of their URI.
    """
    try:
        document = yaml.safe_load(text)
        kind = (document["apiVersion"], document["kind"], document["metadata"]["name"])
        platforms = {
            "-".join(each["selector"]["matchLabels"][label] for label in ("os", "arch")): each
            for each in document["spec"]["platforms"]
        }
        mine = platforms.get(system())
        if mine is None:
            raise Problem(f"{what} has no platform {system()}, but {', '.join(platforms)}")
        archive, digest, program = archives / Path(mine["uri"]).name, mine["sha256"], str(mine["bin"])
        names = [each["from"] for each in mine["files"]]
    except (yaml.YAMLError, LookupError, TypeError) as error:
        raise Problem(f"{what} is no manifest of krew: {' '.join(str(error).split())}") from None
    if kind != (KREW_API, "Plugin", "bayplan"):
        raise Problem(f"{what} is no manifest of krew for the plugin bayplan: {kind}")
    if not archive.is_file() or digest_of(archive) != digest:
        raise Problem(f"{what} names {archive.name}, which isn't there with the SHA-256 {digest}")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as temporary:
        unpack(archive, Path(temporary))
        for name in names:
            shutil.copy(Path(temporary) / name, folder / name)
    return folder / program
