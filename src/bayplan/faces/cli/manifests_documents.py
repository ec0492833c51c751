"""The Kubernetes objects that run Bayplan in a cluster: service account, permissions, configuration and Deployment.

They are in `templates/manifests.yaml.tmpl`. The manifests in `deploy/` are generated from them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from string import Template
from typing import Any

import yaml

Document = dict[str, Any]

STOCK_LEASE = ("kube-system", "kube-scheduler")
"""(namespace, name) of the stock scheduler's lease. The cluster role `system:kube-scheduler` allows renewing it."""
CONFIGURATION_FILE = "scheduler.yaml"
FOLDER = "/etc/bayplan"
"""Where the ConfigMap is mounted in the container."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployed:
    """The deployment: image, files and namespace."""

    image: str
    name: str = "bayplan-scheduler"
    namespace: str = "kube-system"
    replicas: int = 2
    lease: tuple[str, str] | None
    """(namespace, name) of the lease for leader election; None if there is only one replica."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The configuration and plugins: file name -> text"""
    arguments: tuple[str, ...] = ()
    """Arguments of the command in addition to those of the template."""
    rules: Sequence[Document] = ()
    """What plugins may do, beside what every scheduler may: rules of a ClusterRole."""
    definitions: Sequence[Document] = ()
    """The CustomResourceDefinitions that plugins need."""
    provisioning: Sequence[Document] = ()
    """The rules for answering provisioning requests; none if they are not answered."""
    alone: bool = False
    """Whether another scheduler places the pods, and only requests are answered."""

    def values(self) -> dict[str, Any]:
        """The values that all templates have. The labels are those of its objects, and also select its pods."""
        return {
            "image": self.image,
            "name": self.name,
            "namespace": self.namespace,
            "labels": {"app.kubernetes.io/name": "bayplan", "app.kubernetes.io/instance": self.name},
            "files": dict(self.files),
            "checksum": checksum_of(self.files),
        }


def documents(deployed: Deployed) -> Iterator[tuple[str, Document]]:
    """The objects in the order of their creation, each with a comment about its purpose, or ""."""
    lease_namespace, lease_name = deployed.lease or STOCK_LEASE
    values = deployed.values() | {
        "leaseNamespace": lease_namespace,
        "leaseName": lease_name,
        "replicas": deployed.replicas,
        # Without leader election, a new pod must not start before the old one has terminated.
        "strategy": {"type": "Recreate"} if deployed.lease is None else None,
        "provisioningRules": list(deployed.provisioning),
        "pluginRules": list(deployed.rules),
        "arguments": [
            "provision" if deployed.alone else "run",
            f"--config={FOLDER}/{CONFIGURATION_FILE}",
            *deployed.arguments,
            "--v=2",
        ],
    }
    left_out = {f"{deployed.name}:plugins"} if not deployed.rules else set()
    if not deployed.provisioning:
        left_out.add(f"{deployed.name}:provisioning")
    if deployed.alone:
        left_out |= {f"{deployed.name}:system:kube-scheduler", f"{deployed.name}:system:volume-scheduler"}
    if (lease_namespace, lease_name) == STOCK_LEASE:
        left_out.add(f"{deployed.name}:lease")
    for definition in deployed.definitions:
        yield "What plugins read. Leave it out if the cluster has it.", definition
    for comment, document in from_template("manifests.yaml.tmpl", values):
        if document["metadata"]["name"] not in left_out:
            yield comment, document


def checksum_of(texts: Mapping[str, str]) -> str:
    """Identifies files, so that changed ones replace the pods."""
    return hashlib.sha256("\0".join(f"{k}\0{v}" for k, v in sorted(texts.items())).encode()).hexdigest()[:16]


def from_template(name: str, values: Mapping[str, Any]) -> Iterator[tuple[str, Document]]:
    """The objects of a file in `templates/` with these values, each with the comment above it, or ""."""
    template = (files("bayplan.faces.cli") / "templates" / name).read_text(encoding="utf-8")
    for text in template.split("---\n"):
        document: Document = _filled(yaml.safe_load(text), values)
        first = text.partition("\n")[0]
        yield first.removeprefix("# ") if first.startswith("# ") else "", document


def _filled(part: Any, values: Mapping[str, Any]) -> Any:
    """Return a part of the template with the values: in texts, or in place of one. A field whose value is None goes."""
    if isinstance(part, dict):
        return {key: filled for key, each in part.items() if (filled := _filled(each, values)) is not None}
    if isinstance(part, list):
        return [_filled(item, values) for item in part]
    if not isinstance(part, str):
        return part
    name = part.removeprefix("$")
    return values[name] if name != part and name in values else Template(part).substitute(values)
