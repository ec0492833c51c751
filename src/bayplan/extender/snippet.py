"""What goes into the configuration of the scheduler in front, so that it asks this extender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from bayplan.extender.paths import PRIORITIZE


def extenders_snippet(
    url: str,
    verbs: Sequence[str],
    paths: Mapping[str, str],
    *,
    weight: int,
    watches: bool,
    tls: Mapping[str, str] | None = None,
) -> str:
    """The `extenders` of a KubeSchedulerConfiguration, as YAML, with the verbs that the plugins are good for.

    `watches`: whether names of nodes are enough. `tls`: the fields of tlsConfig, where the extender serves HTTPS.
    """
    entry: dict[str, Any] = {"urlPrefix": url}
    for verb in verbs:
        entry[f"{verb}Verb"] = paths[verb].removeprefix("/")
        if verb == PRIORITIZE:
            entry["weight"] = weight
    entry["nodeCacheCapable"] = watches
    if tls is not None:
        entry |= {"enableHTTPS": True, "tlsConfig": dict(tls)}
    text: str = yaml.safe_dump({"extenders": [entry]}, sort_keys=False)
    return text
