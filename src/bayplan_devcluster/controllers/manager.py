"""All controllers together, as in kube-controller-manager.

They are ordinary clients and share one informer per kind.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bayplan.core.api.kinds import Kind
from bayplan.foundations.clock import TimerClock
from bayplan.running.client.client import Client
from bayplan_devcluster.controllers.controller import Controller, ControllerContext
from bayplan_devcluster.controllers.cronjob import CronJobController
from bayplan_devcluster.controllers.csi_provisioner import CsiProvisioner
from bayplan_devcluster.controllers.daemonset import DaemonSetController
from bayplan_devcluster.controllers.deployment import DeploymentController
from bayplan_devcluster.controllers.device_taint_eviction import DeviceTaintEvictionController
from bayplan_devcluster.controllers.disruption import DisruptionController
from bayplan_devcluster.controllers.ephemeral_volume import EphemeralVolumeController
from bayplan_devcluster.controllers.informers import Informers
from bayplan_devcluster.controllers.job import JobController
from bayplan_devcluster.controllers.namespace_contents import RootCaPublisher, ServiceAccountController
from bayplan_devcluster.controllers.node_lifecycle import NodeLifecycleController
from bayplan_devcluster.controllers.persistent_volume import PersistentVolumeController
from bayplan_devcluster.controllers.pod_gc import PodGarbageCollector
from bayplan_devcluster.controllers.recorder import EventSink
from bayplan_devcluster.controllers.replicaset import ReplicaSetController, ReplicationManager
from bayplan_devcluster.controllers.resource_claims import ResourceClaimController
from bayplan_devcluster.controllers.statefulset import StatefulSetController
from bayplan_devcluster.controllers.storage_protection import ClaimProtectionController, VolumeProtectionController
from bayplan_devcluster.controllers.taint_eviction import TaintEvictionController
from bayplan_devcluster.controllers.ttl_after_finished import TtlAfterFinishedController

WORKLOADS: tuple[type[Controller], ...] = (
    DeploymentController,
    ReplicaSetController,
    ReplicationManager,
    StatefulSetController,
    DaemonSetController,
    JobController,
    CronJobController,
    TtlAfterFinishedController,
    DisruptionController,
    NodeLifecycleController,
    TaintEvictionController,
    DeviceTaintEvictionController,
    PodGarbageCollector,
    ServiceAccountController,
    RootCaPublisher,
    ResourceClaimController,
    PersistentVolumeController,
    CsiProvisioner,
    EphemeralVolumeController,
    ClaimProtectionController,
    VolumeProtectionController,
)
"""The controllers of a cluster. The API server itself collects garbage, and empties namespaces."""


class ControllerManager:
    """Runs controllers with an API server. They share one view per kind."""

    def __init__(
        self,
        client: Client,
        clock: TimerClock,
        controllers: Iterable[type[Controller]] = WORKLOADS,
        *,
        informers: Informers | None = None,
        root_ca: str = "",
        taint_rules: Kind | None = None,
        pod_groups: Kind | None = None,
    ) -> None:
        self.informers = informers if informers is not None else Informers(client)
        self._events = EventSink(client, clock)
        context = ControllerContext(client, self.informers, clock, self._events, root_ca, taint_rules, pod_groups)
        self._controllers = [controller(context) for controller in controllers]

    async def run(self) -> None:
        """Run until cancelled. Informers that the caller passed in are run by the caller."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run(), name="events")
            for controller in self._controllers:
                tasks.create_task(controller.run(), name=controller.name)
