"""A cluster with provisioning requests, in virtual time, and a scheduler that answers them."""

from contextlib import asynccontextmanager
from pathlib import Path

import yaml
from tests.support.stories import NAME, Story, scheduling

from bayplan.core.api.kinds import NODE, POD, POD_TEMPLATE
from bayplan.core.api.provisioning import CONSUMES, PROVISIONING_REQUEST
from bayplan.running.provisioning.desk import Desk
from bayplan.running.provisioning.options import CHECK_CAPACITY, ProvisioningOptions

DEFINITION = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "provisioningrequest-crd.yaml").read_text())
TAKES = CONSUMES[0]


class Requests:
    """What the users of a cluster with provisioning requests do, and see."""

    def __init__(self, story: Story, desk: Desk) -> None:
        self.story, self.desk, self.client = story, desk, story.client

    async def add_template(self, name, cpu="1", by=NAME, labels=(), **spec):
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}} if cpu else {}}]
        metadata = {"labels": dict(labels)}
        spec = {"containers": containers, "schedulerName": by, "restartPolicy": "Never", **spec}
        template = {"metadata": metadata, "spec": spec}
        await self.story.create(POD_TEMPLATE, {"metadata": {"name": name}, "template": template})

    async def add(self, name, *sets, class_name=CHECK_CAPACITY, **parameters):
        """Create a request for (template, count) pairs."""
        sets = [{"podTemplateRef": {"name": template}, "count": count} for template, count in sets]
        spec = {"provisioningClassName": class_name, "podSets": sets, "parameters": parameters}
        await self.client.create(PROVISIONING_REQUEST, {"metadata": {"name": name}, "spec": spec}, "default")

    async def ask(self, name, cpu="1", count=1, **options):
        """Create a template and a request for so many pods of it, and wait until nothing changes any more."""
        await self.add_template(name, cpu, **{key: options.pop(key) for key in list(options) if key in TEMPLATE})
        await self.add(name, (name, count), **options)
        await self.settle()

    async def conditions(self, name):
        """type -> (status, reason, message)"""
        found = await self.client.get(PROVISIONING_REQUEST, name, "default")
        return {
            each["type"]: (each["status"], each["reason"], each["message"])
            for each in (found.get("status") or {}).get("conditions") or []
        }

    async def answer(self, name):
        """The latest condition that says how it stands: type, status and reason."""
        found = await self.conditions(name)
        order = ("Failed", "BookingExpired", "CapacityRevoked", "Provisioned", "Accepted")
        return next(((each, *found[each][:2]) for each in order if each in found), None)

    async def message(self, name, condition="Provisioned"):
        return (await self.conditions(name))[condition][2]

    async def details(self, name):
        found = await self.client.get(PROVISIONING_REQUEST, name, "default")
        return (found.get("status") or {}).get("provisioningClassDetails") or {}

    async def take(self, request, *pods, annotation=TAKES, **fields):
        """Create pods that name a request."""
        for pod in pods:
            await self.add_pod(pod, annotations={annotation: request}, **fields)
        await self.settle()

    async def add_pod(self, name, cpu="1", annotations=(), by=NAME, **spec):
        containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
        spec = {"containers": containers, "schedulerName": by, "terminationGracePeriodSeconds": 0, **spec}
        await self.story.create(POD, {"metadata": {"name": name, "annotations": dict(annotations)}, "spec": spec})

    async def delete(self, name):
        await self.client.delete(PROVISIONING_REQUEST, name, "default")

    async def remove_node(self, name):
        await self.client.delete(NODE, name)
        await self.settle()

    async def settle(self, seconds=30.0):
        await self.story.settle(seconds)

    def held(self):
        """node -> how many places are held there, as the scheduler counts them."""
        state, found = self.story.scheduler.state, {}
        for name in state.table.row_of:
            count = sum("~" in pod.name for pod in state.table.pods[state.table.row_of[name]].values())
            if count:
                found[name] = count
        return found


TEMPLATE = {
    "by",
    "labels",
    "affinity",
    "topologySpreadConstraints",
    "priorityClassName",
    "nodeSelector",
    "containers",
    "schedulingGroup",
    "resourceClaims",
    "volumes",
}


@asynccontextmanager
async def answering(*objects, alone=False, classes=(CHECK_CAPACITY,), **options):
    """Run a scheduler that answers requests until the end of the block."""
    desk = Desk(ProvisioningOptions(classes, alone=alone))
    async with scheduling(DEFINITION, *objects, provisioning=desk, **options) as story:
        await story.settle(1)
        yield Requests(story, desk)
