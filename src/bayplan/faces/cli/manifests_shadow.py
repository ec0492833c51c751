"""The Kubernetes objects that run `bayplan shadow` in a cluster, with rights to read exactly what it follows.

They are in `templates/shadow.yaml.tmpl`. `deploy/shadow.yaml` is generated from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots.rights import REQUIRED, reading
from bayplan.core.api.kinds import Kind
from bayplan.core.config import KubeSchedulerConfiguration, load_configuration, read_configuration
from bayplan.core.versions import VERSIONS, gates_of, with_gangs
from bayplan.faces.cli.manifests_documents import CONFIGURATION_FILE, FOLDER, Deployed, Document, from_template
from bayplan.faces.cli.manifests_files import (
    SchedulerFiles,
    add_needs,
    check_connection,
    collect_plugins,
    enabled_in,
    text_of,
)

_FOLLOWS = ("list", "watch")
SHADOW = "bayplan-shadow"
"""The default name of the objects."""


def collect_shadow(
    config: Path | None, plugins: Sequence[str], names: Sequence[str]
) -> tuple[SchedulerFiles, Sequence[Kind]]:
    """Read and validate all files. Returns them with the kinds that the shadow reads.

    Raises UnusableFile, ConfigurationError and PluginLoadError.
    """
    found = SchedulerFiles()
    loaded = collect_plugins(plugins, found, must_load=config is None)
    configuration: KubeSchedulerConfiguration | None = None
    enabled: Sequence[str] = [plugin.name for plugin in loaded or ()]
    if config is not None and loaded is None:
        enabled = enabled_in(load_configuration(config))
        found.warnings.append(f"{config}: the kinds that plugins of the image read have to be added to the ClusterRole")
    elif config is not None:
        reading = read_configuration(config, loaded or ())
        found.warnings += reading.warning_lines()
        configuration = reading.configuration
        enabled = enabled_in(configuration)
        check_connection(config, configuration)
    if config is not None:
        found.files[CONFIGURATION_FILE] = text_of(config)
        found.arguments.insert(0, f"--config={FOLDER}/{CONFIGURATION_FILE}")
    found.arguments += [f"--scheduler-name={name}" for name in names]
    add_needs(enabled, loaded or (), found)
    every = [World(configuration, loaded or (), with_gangs(gates_of(version))) for version in VERSIONS]
    return found, list(dict.fromkeys((*REQUIRED, *(kind for each in every for kind in each.handle.served))))


def _followed(declared: Sequence[Document], known: Sequence[Document]) -> Iterator[Document]:
    """What plugins declare that they list, or list and watch, but for what is known.

    A shadow reads nothing in another way. It lists what sources of measurements need, such as the nodes' metrics.
    """
    granted = {(group, resource) for rule in known for group in rule["apiGroups"] for resource in rule["resources"]}
    for rule in declared:
        for group in rule.get("apiGroups") or ():
            resources = [each for each in rule.get("resources") or () if (group, each) not in granted]
            verbs = [each for each in _FOLLOWS if each in rule["verbs"]]
            if resources and "list" in verbs:
                yield {"apiGroups": [group], "resources": resources, "verbs": verbs}


def shadow_documents(deployed: Deployed, kinds: Sequence[Kind]) -> Iterator[tuple[str, Document]]:
    """The objects in the order of their creation, each with a comment about its purpose, or ""."""
    rules = reading(kinds)
    values = deployed.values() | {
        "rules": [*rules, *_followed(deployed.rules, rules)],
        "arguments": [
            "shadow",
            *deployed.arguments,
            "--output=lines",
            "--state=/found/shadow.json",
            "--report=/found/report.html",
            "--address=0.0.0.0",
            "--port=8080",
        ],
    }
    for comment, document in from_template("shadow.yaml.tmpl", values):
        if document["kind"] == "ConfigMap" and not deployed.files:
            continue
        if document["kind"] == "Deployment" and not deployed.files:
            spec = document["spec"]["template"]["spec"]
            spec["volumes"] = [each for each in spec["volumes"] if each["name"] != "configuration"]
            (container,) = spec["containers"]
            mounts = container["volumeMounts"]
            container["volumeMounts"] = [each for each in mounts if each["name"] != "configuration"]
        yield comment, document
