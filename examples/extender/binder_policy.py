"""A binder: the scheduler in front leaves binding to the extender, which asks the API server for it.

It needs the cluster: --watch takes the kubeconfig that kubectl would take, or the pod's service account.

    bayplan extender --watch --plugin examples/extender/binder_policy.py
"""

import logging

from bayplan import Plugin

log = logging.getLogger("binder")
log.setLevel(logging.INFO)


class ApiBinder(Plugin):
    """Binds through the API, and leaves a line in the log."""

    name = "api-binder"

    def __init__(self, handle):
        self._handle = handle

    async def bind(self, cycle, pod, node_name):
        """Bind the pod; what the API server objects to, the scheduler in front is told."""
        await self._handle.client.bind(pod.namespace, pod.name, node_name, uid=pod.uid)
        log.info("pod %s is bound to node %s", pod.key, node_name)
