"""A binder: kube-scheduler leaves binding to this extender, which binds pods through the API server.

It needs access to the cluster. --watch uses the kubeconfig that kubectl would use, or the pod's service account.

    bayplan extender --watch --plugin examples/extender/binder_policy.py
"""

import logging

from bayplan import Plugin

log = logging.getLogger("binder")
log.setLevel(logging.INFO)


class ApiBinder(Plugin):
    """Binds pods through the API, and logs each binding."""

    name = "api-binder"

    def __init__(self, handle):
        self._handle = handle

    async def bind(self, cycle, pod, node_name):
        """Bind the pod. Errors of the API server are returned to kube-scheduler."""
        await self._handle.client.bind(pod.namespace, pod.name, node_name, uid=pod.uid)
        log.info("pod %s is bound to node %s", pod.key, node_name)
