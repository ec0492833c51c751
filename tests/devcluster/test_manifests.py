from pathlib import Path

import pytest
from tests.support.tables import cases

from bayplan.core.api.kinds import CONFIG_MAP, NODE, POD, PRIORITY_CLASS, custom_kind
from bayplan.foundations.clock import ManualClock
from bayplan.foundations.manifest_files import ManifestError
from bayplan_devcluster import manifests
from bayplan_devcluster.cluster import DevCluster

POD_YAML = """\
apiVersion: v1
kind: Pod
metadata: {name: a, labels: {since: 2026-01-01}}
spec: {containers: [{name: c, image: i}]}
"""


def test_all_documents_are_read_and_objects_without_a_namespace_come_first(tmp_path: Path):
    (tmp_path / "one.yaml").write_text(
        f"# nothing\n---\n{POD_YAML}---\n\n---\n{POD_YAML.replace('name: a', 'name: b')}"
    )
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "two.json").write_text(
        '{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "scheduling.k8s.io/v1",'
        ' "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 10}]}'
    )
    (tmp_path / "notes.txt").write_text("not read")
    read = manifests.read([tmp_path])
    assert [(one.kind, one.document["metadata"]["name"]) for one in read] == [
        (PRIORITY_CLASS, "high"),
        (POD, "a"),
        (POD, "b"),
    ]
    assert read[1].where == f"{tmp_path / 'one.yaml'}, document 1 (line 3)"
    assert read[1].document["metadata"]["labels"] == {"since": "2026-01-01"}


@cases(
    "content, complaint",
    {
        "not YAML": ("a: [", "document 1 (line 1): not valid YAML"),
        "not YAML further down": (f"{POD_YAML}---\na: b: c\n", "document 2 (line 6): not valid YAML"),
        "list": ("- a\n", "document 1 (line 1): expected an object with apiVersion and kind, not a list"),
        "text": ("hello\n", "expected an object with apiVersion and kind, not 'hello'"),
        "no version": ("kind: Pod\n", "apiVersion is missing"),
        "kind": (f"{POD_YAML}---\napiVersion: v1\nkind: Pot\n", "document 2 (line 6): there is no kind Pot in v1"),
        "kind of another group": (
            "apiVersion: v1\nkind: Deployment\n",
            "there is no kind Deployment in v1; Deployment is served in apps/v1",
        ),
        "no name": ("apiVersion: v1\nkind: Pod\n", "Pod: metadata.name is missing"),
        "odd metadata": ("apiVersion: v1\nkind: Pod\nmetadata: web\n", "Pod: metadata.name is missing"),
        "not a text": (b"\xff\xfa", "not a text file in UTF-8: byte 0 is 0xff"),
        "too deep": ("[" * 5000, "document 1: nested too deeply"),
        "unknown tag": ("a: !odd b\n", "could not determine a constructor for the tag '!odd'"),
        "a template": ("a: {{ .Values.a }}", "found unhashable key: render the template first, as with helm template"),
        "control characters": ("\x00", "not valid YAML"),
    },
)
def test_error_names_the_location(tmp_path: Path, content: str | bytes, complaint: str):
    file = tmp_path / "bad.yaml"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ManifestError) as refusal:
        manifests.read([file])
    message = str(refusal.value)
    assert message.startswith(str(file))
    assert complaint in message
    assert "\n" not in message


def test_missing_file_and_directory_without_manifests_are_errors(tmp_path: Path):
    with pytest.raises(ManifestError, match="No such file"):
        manifests.read([tmp_path / "absent.yaml"])
    with pytest.raises(ManifestError, match=r"no file in this directory ends in \.yaml, \.yml, \.json"):
        manifests.read([tmp_path])


async def test_objects_are_created_with_their_status_or_patched(tmp_path: Path):
    file = tmp_path / "all.yaml"
    file.write_text(
        POD_YAML + "status: {phase: Running}\n---\n"
        "apiVersion: v1\nkind: Node\nmetadata: {name: big}\nstatus: {capacity: {cpu: '64'}, allocatable: {cpu: '63'}}\n"
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\ndata: {a: one}\n"
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\ndata: {a: two}\n"
    )
    async with DevCluster(0, clock=ManualClock(), controllers=False, kubelets=False) as cluster:
        await manifests.create(cluster.client, manifests.read([file]))
        assert (await cluster.client.get(POD, "a", "default")).status.phase == "Running"
        assert (await cluster.client.get(NODE, "big")).status.allocatable == {"cpu": "63"}
        assert (await cluster.client.get(CONFIG_MAP, "c", "default")).data == {"a": "two"}


async def test_error_of_the_server_names_the_location(tmp_path: Path):
    file = tmp_path / "bad.yaml"
    file.write_text(f"{POD_YAML}---\n{POD_YAML.replace('name: a', 'name: Not_A_Name')}")
    async with DevCluster(0, clock=ManualClock(), controllers=False, kubelets=False) as cluster:
        with pytest.raises(ManifestError) as refusal:
            await manifests.create(cluster.client, manifests.read([file]))
    assert str(refusal.value).startswith(f"{file}, document 2 (line 6): Pod Not_A_Name: ")


async def test_an_object_whose_owner_does_not_exist_is_told_apart(tmp_path: Path):
    owner = "{apiVersion: v1, kind: Pod, name: gone, uid: gone}"
    file = tmp_path / "owned.yaml"
    file.write_text(
        f"{POD_YAML.replace('name: a', f'name: a, ownerReferences: [{owner}]')}status: {{phase: Running}}\n"
    )
    async with DevCluster(0, clock=ManualClock(), controllers=False, kubelets=False) as cluster:
        with pytest.raises(ManifestError, match=r"Pod a: it is deleted at once, because no owner in its metadata"):
            await manifests.create(cluster.client, manifests.read([file]))


DEFINITION = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: queues.batch.example.com}
spec:
  group: batch.example.com
  names: {plural: queues, singular: queue, kind: Queue}
  scope: SCOPE
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""
QUEUE = (
    "apiVersion: batch.example.com/v1\nkind: Queue\nmetadata: {name: fast}\nspec: {weight: 2}\nstatus: {length: 3}\n"
)


@pytest.mark.parametrize("scope", ["Namespaced", "Cluster"])
async def test_objects_of_custom_kinds_are_created(tmp_path: Path, scope: str):
    (tmp_path / "a-queue.yaml").write_text(QUEUE)
    (tmp_path / "definition.yaml").write_text(DEFINITION.replace("SCOPE", scope))
    queues = custom_kind("queues.v1.batch.example.com", namespaced=scope == "Namespaced")
    async with DevCluster(0, clock=ManualClock(), controllers=False, kubelets=False) as cluster:
        for _ in range(2):  # the second time, everything exists
            await manifests.create(cluster.client, manifests.read([tmp_path]))
        queue = await cluster.client.get(queues, "fast", "default")
        assert (queue["spec"], queue["status"]) == ({"weight": 2}, {"length": 3})


def test_undefined_kind_is_an_error(tmp_path: Path):
    (tmp_path / "queue.yaml").write_text(QUEUE)
    (tmp_path / "definition.yaml").write_text(DEFINITION.replace("SCOPE", "[]").replace("name: v1", "name: v2"))
    with pytest.raises(ManifestError, match=r"there is no kind Queue in batch.example.com/v1$"):
        manifests.read([tmp_path])
    (tmp_path / "definition.yaml").write_text(DEFINITION.replace("SCOPE", "Cluster").replace("name: v1", "name: v2"))
    with pytest.raises(ManifestError, match=r"; Queue is served in batch.example.com/v2$"):
        manifests.read([tmp_path])
