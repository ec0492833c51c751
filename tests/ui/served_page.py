"""The page on a loopback socket, a client with its cookie, and small clusters to show."""

from contextlib import asynccontextmanager
from html.parser import HTMLParser

import aiohttp

from bayplan.faces.asking.sources import FileSource
from bayplan.faces.ui.server import serving
from bayplan.insight import Insight, Snapshot

VOID = {"meta", "link", "input", "br", "wbr"}
ZONE = "topology.kubernetes.io/zone"


def node(name, cpu="4", zone="zone-a", ready="True", taints=(), unschedulable=False, labels=()):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: zone, **dict(labels)}},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(name, cpu="1", node="", **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": name.partition("-")[0]}},
        "spec": {"containers": [container], **({"nodeName": node} if node else {}), **spec},
        "status": {"phase": "Running" if node else "Pending"},
    }


GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def small_cluster():
    yield node("node-a1")
    yield node("node-a2", unschedulable=True)
    yield node("node-b1", zone="zone-b", taints=[GPU], cpu="8")
    yield node("node-b2", zone="zone-b", ready="False", cpu="2")
    yield pod("web-0", "3", node="node-a1")
    yield pod("web-1", "500m", node="node-b1")
    yield pod("big-0", "6")
    yield pod("pinned-0", "100m", nodeSelector={"disk": "nvme"})


def stateful_set(name, replicas, *numbers, **options):
    """A StatefulSet and some of its pods."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": replicas, "serviceName": name, "selector": {"matchLabels": {"app": name}}, "template": template}
    metadata = {"name": name, "namespace": "default"}
    yield {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec}
    for number in numbers:
        member = pod(f"{name}-{number}", **options)
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": name, "controller": True}
        member["metadata"]["ownerReferences"] = [owner]
        yield member


class Page(HTMLParser):
    """What a test asks about a document. Fails for tags that do not match, and for ids that are not unique."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.addresses, self.unlabelled, self.words = [], {}, [], [], []
        self.counts = {}
        self._open = []
        self._link = None
        self._continues = False
        self.feed(text)
        self.close()
        assert self._open == []
        assert len(self.ids) == len(set(self.ids))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self._continues = tag == "wbr"
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.ids += [found["id"]] if "id" in found else []
        self.addresses += [found[name] for name in ("href", "src", "action", "hx-get") if name in found]
        if tag == "a" and "href" in found:
            self._link = found["href"]
            self.links[self._link] = found.get("aria-label", "")
        visible = tag in {"input", "select"} and found.get("type") != "hidden"
        if visible and "label" not in self._open and "aria-label" not in found:
            self.unlabelled.append(found)
        if tag not in VOID and self._open[-1:] != ["svg"]:
            self._open.append(tag)

    def handle_endtag(self, tag):
        if self._open[-1:] != ["svg"] or tag == "svg":
            assert self._open.pop() == tag

    def handle_data(self, data):
        if self._continues:  # a <wbr> only lets a word break
            data = self.words.pop() + data
        self._continues = False
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


class Visitor:
    """A client of a served page."""

    def __init__(self, session, url):
        self.session = session
        self.url = url
        self.base = url.partition("/?")[0]

    async def get(self, path, status=200, part=None, **options):
        """The text of a page. `part`: asks as htmx does, for the element with this id."""
        headers = {"HX-Request": "true", "HX-Target": part} if part else {}
        async with self.session.get(self.base + path, headers=headers, **options) as response:
            text = await response.text()
            assert response.status == status, text
            assert "Traceback" not in text
            return text

    async def post(self, path, **fields):
        """The page that a form leads to."""
        async with self.session.post(self.base + path, data=fields, headers={"Origin": self.base}) as response:
            text = await response.text()
            assert response.status == 200, text
            return Page(text)

    async def page(self, path, status=200, **options):
        return Page(await self.get(path, status, **options))


@asynccontextmanager
async def served(source, insight=None, **options):
    """A visitor with the cookie."""
    async with (
        serving(source, insight or Insight(Snapshot()), **options) as url,
        aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session,
    ):
        async with session.get(url) as response:
            assert response.status == 200, await response.text()
        yield Visitor(session, url)


def served_objects(*objects, **options):
    return served(FileSource(Snapshot.of(objects, source="file cluster.yaml")), **options)


async def page_of(path, *objects, **options):
    """A page about a cluster of these objects."""
    async with served_objects(*objects) as visitor:
        return await visitor.page(path, **options)
