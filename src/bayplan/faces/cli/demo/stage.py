"""The twelve nodes of the demo, and its manifests in the order of their file names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lightkube.models.core_v1 import ContainerImage, Node, Taint

from bayplan.running.client.client import Client
from bayplan_devcluster import manifests
from bayplan_devcluster.kubelet import NodeShape, make_node

FOLDER = Path(__file__).parent
POLICY = FOLDER / "policy.py"
LARGE_IMAGE = ContainerImage(names=["registry.example/model:1"], sizeBytes=4_000_000_000)


def nodes() -> list[Node]:
    """Four nodes in each of three zones, some with special features."""
    big = NodeShape(cpu="16", memory="64Gi", instance_type="big")
    with_image = [make_node(f"node-c{number}", zone="zone-c") for number in (1, 2)]
    for node in with_image:
        assert node.status is not None
        node.status.images = [LARGE_IMAGE]
    return [
        make_node("node-a1", zone="zone-a", labels={"tier": "control"}),
        make_node("node-a2", zone="zone-a"),
        make_node("node-a3", zone="zone-a"),
        make_node("node-a4", zone="zone-a"),
        make_node("node-b1", zone="zone-b", labels={"tier": "cronjob"}),
        make_node("node-b2", big, zone="zone-b"),
        make_node("node-b3", zone="zone-b"),
        make_node("node-b4", zone="zone-b", unschedulable=True),
        *with_image,
        make_node("node-c3", zone="zone-c"),
        make_node(
            "node-c4",
            zone="zone-c",
            labels={"dedicated": "batch"},
            taints=[Taint(key="dedicated", value="batch", effect="NoSchedule")],
        ),
    ]


@dataclass(frozen=True, slots=True)
class Act:
    """A file of manifests to apply. `title` is the comment in its first line."""

    file: Path
    title: str

    @property
    def name(self) -> str:
        """The name of the file without its number."""
        return self.file.name.partition("-")[2]

    async def play(self, client: Client) -> None:
        """Create its objects."""
        await manifests.create(client, manifests.read([self.file]))


def acts() -> list[Act]:
    """All acts in order."""
    return [Act(file, _title(file)) for file in sorted((FOLDER / "manifests").glob("*.yaml"))]


def _title(file: Path) -> str:
    return file.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
