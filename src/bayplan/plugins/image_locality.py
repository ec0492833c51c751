"""ImageLocality: nodes that have the pod's images already are liked more, big images more than small ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from lightkube.models.core_v1 import PodSpec

from bayplan.cluster.columns import Int64
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.interface import MAX_NODE_SCORE, CycleState, Plugin

_MB = 1024 * 1024
_LEAST = 23 * _MB
"""Bytes up to which images count nothing."""
_MOST_A_CONTAINER = 1000 * _MB
"""Bytes from which on they count no more, times the number of containers."""


class ImageLocality(Plugin):
    """Mirrors plugins/imagelocality/image_locality.go."""

    name = "ImageLocality"
    reads_pods = False

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """0 to 100 by the bytes of the images that the node has, each scaled by how many of the nodes have it."""
        table, spec = nodes.table, pod.spec
        sums: Int64 | None = None
        for image in _images(spec) if table.images else ():
            column = table.images.get(image)
            if column is None:
                continue
            worth = int(column.size * (column.nodes / table.live_count))
            present = column.present[nodes.rows] * np.int64(worth)
            sums = present if sums is None else sums + present
        if sums is None:
            return np.zeros(len(nodes), dtype=np.int64)
        most = _MOST_A_CONTAINER * (len(spec.containers or ()) + len(spec.initContainers or ()))
        return MAX_NODE_SCORE * (np.clip(sums, _LEAST, most) - _LEAST) // (most - _LEAST)

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> int:
        """Which nodes have which image, and how many nodes there are: an image's worth depends on all of them."""
        return nodes.table.images_version

    def sign(self, pod: PodInfo) -> tuple[str, ...]:
        """The images, in any order but as often as they are named, and the number of containers."""
        spec = pod.spec
        containers = len(spec.containers or ()) + len(spec.initContainers or ())
        return (*sorted(_images(spec)), str(containers))


def _images(spec: PodSpec) -> Iterator[str]:
    """The images of all containers and image volumes, as container runtimes name them."""
    for container in (*(spec.initContainers or ()), *(spec.containers or ())):
        yield _normalized(container.image or "")
    for volume in spec.volumes or ():
        if volume.image is not None:
            yield _normalized(volume.image.reference or "")


def _normalized(image: str) -> str:
    """A name without a tag means the latest."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
