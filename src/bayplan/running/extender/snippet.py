"""The part of another scheduler's configuration that makes it call this extender."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from bayplan.running.extender.paths import PRIORITIZE


def extenders_snippet(
    url: str,
    verbs: Sequence[str],
    paths: Mapping[str, str],
    *,
    weight: int,
    watches: bool,
    tls: Mapping[str, str] | None = None,
) -> str:
    """The `extenders` of a KubeSchedulerConfiguration as YAML.

    `watches` says whether names of nodes are enough. `tls` has the fields of tlsConfig, if the extender serves HTTPS.
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
