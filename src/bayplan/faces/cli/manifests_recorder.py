"""The Kubernetes objects that run `bayplan record` in a cluster, with rights to read exactly what it records.

They are in `templates/recorder.yaml.tmpl`. `deploy/recorder.yaml` is generated from them.
"""

from __future__ import annotations

from collections.abc import Iterator

from bayplan.answers.history.recording import KINDS
from bayplan.answers.snapshots.rights import reading
from bayplan.faces.cli.manifests_documents import Deployed, Document, from_template

RECORDER = "bayplan-recorder"
"""The default name of the objects."""


def recorder_documents(deployed: Deployed) -> Iterator[tuple[str, Document]]:
    """The objects in the order of their creation, each with a comment about its purpose, or ""."""
    return from_template("recorder.yaml.tmpl", deployed.values() | {"rules": reading(KINDS)})
