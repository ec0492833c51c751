"""The workload of a manifest: its container, beside an embedded cluster with its objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tools.images.builders import Builder
from tools.images.clusters import ACCOUNT, Cluster, cluster
from tools.images.containers import Container, Running, start


@dataclass(frozen=True)
class Workload:
    """A container that runs, and its cluster."""

    container: Running
    cluster: Cluster


@contextmanager
def running_workload(
    builder: Builder,
    image: str,
    manifests: str,
    folder: Path,
    *,
    files: Sequence[Path] = (),
    arguments: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    kept: Path | None = None,
) -> Iterator[Workload]:
    """Run the Deployment of manifests, with more arguments and variables. Its cluster also has the objects of files.

    A claimed volume is the folder `kept`. Other volumes are configuration, or in memory.
    """
    documents = [each for each in yaml.safe_load_all(manifests) if each]
    (deployment,) = (each for each in documents if each["kind"] == "Deployment")
    pod, name = deployment["spec"]["template"]["spec"], deployment["metadata"]["name"]
    own = folder / name
    own.mkdir()
    (own / "manifests.yaml").write_text(manifests)
    given = [argument for file in (own / "manifests.yaml", *files) for argument in ("--filename", str(file))]
    with cluster(own, "--nodes", "10", *given) as served:
        mounts, memory = _volumes(pod, documents, own, kept)
        mounts[ACCOUNT] = served.write_account(pod["serviceAccountName"], own / "account")
        more = {"mounts": mounts, "memory": memory, "environment": {**served.environment, **(environment or {})}}
        running = start(builder, Container.of(pod, image, arguments, **more), own / "log")
        try:
            yield Workload(running, served)
        finally:
            running.close()


def _volumes(
    pod: dict[str, Any], documents: list[dict[str, Any]], folder: Path, kept: Path | None
) -> tuple[dict[str, Path], list[str]]:
    mounts: dict[str, Path] = {}
    memory = []
    places = {mount["name"]: mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    for volume in pod["volumes"]:
        place = places[volume["name"]]
        if "emptyDir" in volume:
            memory.append(place)
        elif "configMap" in volume:
            mounts[place] = _configuration(documents, volume["configMap"]["name"], folder / "configuration")
        else:
            assert kept is not None, "a claimed volume has a folder"
            mounts[place] = kept
    return mounts, memory


def _configuration(documents: list[dict[str, Any]], name: str, folder: Path) -> Path:
    (data,) = (each["data"] for each in documents if (each["kind"], each["metadata"]["name"]) == ("ConfigMap", name))
    folder.mkdir()
    for file, text in data.items():
        (folder / file).write_text(text)
    return folder
