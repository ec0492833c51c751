"""ImageLocality: prefers nodes that already have the pod's container images."""

from __future__ import annotations

import numpy as np
from lightkube.models.core_v1 import PodSpec

from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.interface import MAX_NODE_SCORE, CycleState, Plugin
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

_MB = 1024 * 1024
_MIN_THRESHOLD = 23 * _MB
"""The sum of image sizes, in bytes, up to which the score is 0."""
_MAX_CONTAINER_THRESHOLD = 1000 * _MB
"""The sum of image sizes, in bytes per container, from which on the score is 100."""


class ImageLocality(Plugin):
    """Mirrors plugins/imagelocality/image_locality.go."""

    name = "ImageLocality"
    reads_pods = False

    def __init__(self, gates: FeatureGates = DEFAULT_GATES) -> None:
        self._counts_volumes = gates.enabled("ImageVolumesInImageLocality")

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """Score by the sum of the sizes of the pod's images on the node, each scaled by the share of nodes with it."""
        table, spec = nodes.table, pod.spec
        sums: Int64 | None = None
        for image in _images(spec) if table.images else ():
            column = table.images.get(image)
            if column is None:
                continue
            scaled_size = int(column.size * (column.nodes / table.live_count))
            present = column.present[nodes.rows] * np.int64(scaled_size)
            sums = present if sums is None else sums + present
        if sums is None:
            return np.zeros(len(nodes), dtype=np.int64)
        counted = len(spec.containers or ()) + len(spec.initContainers or ())
        if self._counts_volumes:
            counted += len(_volumes(spec))
        most = _MAX_CONTAINER_THRESHOLD * counted
        return MAX_NODE_SCORE * (np.clip(sums, _MIN_THRESHOLD, most) - _MIN_THRESHOLD) // (most - _MIN_THRESHOLD)

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> int:
        """The images of all nodes, and their number, which scale the sizes."""
        return nodes.table.images_version

    def sign(self, pod: PodInfo) -> tuple[str, ...]:
        """The sorted images, with duplicates, and the number of containers."""
        return pod.of_spec(ImageLocality, _signature)


def _signature(pod: PodInfo) -> tuple[str, ...]:
    spec = pod.spec
    containers = len(spec.containers or ()) + len(spec.initContainers or ())
    return (*sorted(_images(spec)), str(containers))


def _images(spec: PodSpec) -> list[str]:
    """Return the normalized names of the images of all containers and image volumes."""
    containers = (*(spec.initContainers or ()), *(spec.containers or ()))
    images = [container.image for container in containers] + _volumes(spec)
    return [_normalized(image or "") for image in images]


def _volumes(spec: PodSpec) -> list[str | None]:
    """Return the images of image volumes."""
    return [volume.image.reference for volume in spec.volumes or () if volume.image is not None]


def _normalized(image: str) -> str:
    """Add the tag `latest` to an image name without a tag."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
