"""What differs between versions of Kubernetes, as data: feature gates, and changes without a gate.

A difference is one entry of `kubernetes.json`, by name. The core asks `gates.enabled(NAME)`: a plugin in its
constructor, and what makes profiles, hints, the configuration and metrics, once. The embedded API server asks its
`features`. Pods are read as the version counts them (`atomic=`), because a pod outlives the question. To add one: its
entry; its `plugins` are added to the default ones.

Other packages use `table`.
"""

from typing import TYPE_CHECKING

from bayplan.foundations.lazy import lazily

if TYPE_CHECKING:
    from bayplan.core.versions.gates import DEFAULT_GATES, FeatureGates, gates_of, of_composites, of_gangs, with_gangs
    from bayplan.core.versions.reading import ReadGates, emulated_version, read_gates
    from bayplan.core.versions.servers import FollowedVersion, version_followed, version_text
    from bayplan.core.versions.table import (
        CHANGES,
        GATES,
        GONE_METRICS,
        NEWEST,
        OLDEST,
        RELEASES,
        VERSIONS,
        GoneMetric,
        Version,
    )

__all__ = [
    "CHANGES",
    "DEFAULT_GATES",
    "GATES",
    "GONE_METRICS",
    "NEWEST",
    "OLDEST",
    "RELEASES",
    "VERSIONS",
    "FeatureGates",
    "FollowedVersion",
    "GoneMetric",
    "ReadGates",
    "Version",
    "emulated_version",
    "gates_of",
    "of_composites",
    "of_gangs",
    "read_gates",
    "version_followed",
    "version_text",
    "with_gangs",
]

__getattr__, __dir__ = lazily(__name__)
