"""After random changes and failures, the reflector has the same objects as the server."""

import asyncio
import random
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st
from tests.support.waiting import turns

from bayplan.client import ApiError, Backoff, Pace, Reflector
from bayplan.core.api.kinds import POD
from bayplan.testing.builders import make_pod
from bayplan.testing.documents import as_sent
from bayplan.testing.in_memory import make_client
from bayplan_devcluster.apiserver import Fault
from bayplan_devcluster.in_memory import InMemoryClient

NAMES = [f"p{number}" for number in range(4)]


class View(dict):
    """The objects according to the handler's calls. Every call must be consistent with the previous ones."""

    def added(self, new):
        assert new.metadata.name not in self
        self[new.metadata.name] = new

    def updated(self, old, new):
        assert self[new.metadata.name] is old
        assert old.metadata.uid == new.metadata.uid
        assert old.metadata.resourceVersion != new.metadata.resourceVersion
        self[new.metadata.name] = new

    def deleted(self, old):
        assert self.pop(old.metadata.name) is old

    def undecodable(self, raw, error):
        raise AssertionError(error)


async def create(client: InMemoryClient, name: str) -> None:
    _, document = as_sent(make_pod(name, labels={"app": "web"}))
    await client.create(POD, document)


def patch(**metadata) -> Callable:
    return lambda client, name: client.patch(POD, name, {"metadata": metadata})


async def recreate(client: InMemoryClient, name: str) -> None:
    await client.delete(POD, name)
    await create(client, name)


CHANGES = {
    "create": create,
    "touch": patch(annotations={"touched": "again"}),
    "leave": patch(labels={"app": "other"}),
    "come back": patch(labels={"app": "web"}),
    "delete": lambda client, name: client.delete(POD, name),
    "recreate": recreate,
}


def refuse(client: InMemoryClient) -> None:
    """Make the server unreachable until the next step."""
    client.transport.reachable = False
    client.transport.end_streams(broken=True)


def fail(**fault) -> Callable:
    return lambda client: client.server.faults.add(Fault(**fault))


FAILURES = {
    "compact": lambda client: client.server.store.compact(),
    "end": lambda client: client.transport.end_streams(),
    "cut": lambda client: client.transport.end_streams(broken=True),
    "refuse": refuse,
    "drop lists": fail(verb="list", drop="before", times=2),
    "drop watches": fail(verb="watch", drop="before", times=2),
    "busy": fail(answer=429, reason="TooManyRequests", retry_after=1, times=1),
    "let it run": lambda _: None,
}
STEPS = st.one_of(
    st.tuples(st.sampled_from(sorted(CHANGES)), st.sampled_from(NAMES)),
    st.tuples(st.sampled_from(sorted(FAILURES)), st.integers(0, 12)),
)


@given(
    steps=st.lists(STEPS, max_size=40),
    selector=st.sampled_from(["", "app=web"]),
    page_size=st.sampled_from([1, 2, 500]),
)
def test_store_becomes_equal_to_the_server(steps, selector, page_size):
    asyncio.run(play(steps, selector, page_size))


async def play(steps, selector, page_size):
    client, view = make_client(retries=0), View()
    reflector = Reflector(
        client,
        POD,
        view,
        label_selector=selector,
        pace=Pace(
            page_size=page_size,
            backoff=Backoff(initial=1.0),
            sleep=lambda _: asyncio.sleep(0),
            clock=lambda: 0.0,
            rng=random.Random(0),
        ),
    )
    task = asyncio.create_task(reflector.run())
    for what, detail in steps:
        if what in FAILURES:
            FAILURES[what](client)
            await turns(detail)
            client.transport.reachable = True
        else:
            try:
                await CHANGES[what](client, detail)
            except ApiError as error:
                assert error.status in {404, 409, 429}  # noqa: PT017 - most steps are checked by the end alone
    client.server.faults.clear()
    await turns(400)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    there = await client.list(POD, label_selector=selector)
    versions = {pod.metadata.name: pod.metadata.resourceVersion for pod in there.items}
    assert {pod.metadata.name: pod.metadata.resourceVersion for pod in reflector.store.values()} == versions
    assert set(view) == set(versions)
    assert all(view[pod.metadata.name] is pod for pod in reflector.store.values())
