"""All controllers together, as in kube-controller-manager."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from bayplan.api.kinds import Kind
from bayplan.client import Client
from bayplan.clock import TimerClock
from bayplan.devcluster.controllers.controller import Controller, ControllerContext
from bayplan.devcluster.controllers.cronjob import CronJobController
from bayplan.devcluster.controllers.csi_provisioner import CsiProvisioner
from bayplan.devcluster.controllers.daemonset import DaemonSetController
from bayplan.devcluster.controllers.deployment import DeploymentController
from bayplan.devcluster.controllers.device_taint_eviction import DeviceTaintEvictionController
from bayplan.devcluster.controllers.disruption import DisruptionController
from bayplan.devcluster.controllers.ephemeral_volume import EphemeralVolumeController
from bayplan.devcluster.controllers.informers import Informers
from bayplan.devcluster.controllers.job import JobController
from bayplan.devcluster.controllers.namespace_contents import RootCaPublisher, ServiceAccountController
from bayplan.devcluster.controllers.node_lifecycle import NodeLifecycleController
from bayplan.devcluster.controllers.persistent_volume import PersistentVolumeController
from bayplan.devcluster.controllers.pod_gc import PodGarbageCollector
from bayplan.devcluster.controllers.recorder import EventSink
from bayplan.devcluster.controllers.replicaset import ReplicaSetController, ReplicationManager
from bayplan.devcluster.controllers.resource_claims import ResourceClaimController
from bayplan.devcluster.controllers.statefulset import StatefulSetController
from bayplan.devcluster.controllers.storage_protection import ClaimProtectionController, VolumeProtectionController
from bayplan.devcluster.controllers.taint_eviction import TaintEvictionController
from bayplan.devcluster.controllers.ttl_after_finished import TtlAfterFinishedController

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
