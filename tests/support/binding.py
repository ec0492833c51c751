"""A trivial scheduler: it binds every pod to the node that a function names."""

from collections.abc import Callable, Mapping
from typing import Any

from tests.support.waiting import until

from bayplan.client import ApiError, Client


async def bind_all(
    client: Client,
    pods: Mapping[str, Any],
    choose: Callable[[Any], str],
    active: Callable[[], bool] = lambda: True,
    *,
    step: float = 0.02,
) -> None:
    """Bind the pods of a view that have no node, while `active`, until cancelled. `step`: as for `until`."""
    tried: set[tuple[str, str]] = set()
    """The versions of pods that were bound, or that the API server refused to bind."""

    def waiting() -> list[Any]:
        return [
            pod
            for pod in pods.values()
            if active() and not pod.spec.nodeName and pod.metadata.deletionTimestamp is None
            if (pod.metadata.uid, pod.metadata.resourceVersion) not in tried
        ]

    while True:
        for pod in await until(waiting, within=None, step=step):
            tried.add((pod.metadata.uid, pod.metadata.resourceVersion))
            try:
                await client.bind(pod.metadata.namespace, pod.metadata.name, choose(pod))
            except ApiError as error:
                if error.status not in {403, 404, 409}:  # 403: its namespace is terminating
                    raise
