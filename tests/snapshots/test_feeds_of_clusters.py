"""Feeds of a live cluster: their sources are asked, and one that gives nothing costs itself only."""

import asyncio
import json

import pytest
from tests.support.waiting import until

from bayplan.answers.snapshots import feeds as asking
from bayplan.core.api.kinds import custom_kind
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.feeds import Feed, FeedError, FeedSource
from bayplan.faces.asking.sources import ClusterSource
from bayplan.insight import Snapshot
from bayplan.testing import make_node
from bayplan.testing.in_memory import make_client

PRICES = custom_kind("pricelists.v1.example.com")


def feed(**sources):
    made = Feed(PRICES, "PriceList", ClusterState().objects[PRICES])
    made.sources += [FeedSource(name, ask) for name, ask in sources.items()]
    return made


async def spot(client, now):
    return "spot", {"prices": {"a": 3}}


async def fails(client, now):
    raise FeedError("the price list is\nempty")


async def breaks(client, now):
    return "x", {"prices": {}["a"]}


async def never(client, now):
    await asyncio.sleep(60)


async def no_json(client, now):
    return "x", {"prices": object()}


async def test_a_snapshot_has_what_the_sources_say():
    snapshot = await Snapshot.from_client(make_client(make_node("a")), feeds=[feed(spot=spot), feed(spot=spot)])
    assert snapshot.gaps == ()
    found = snapshot.document(PRICES, "spot")
    assert (found["kind"], found["apiVersion"], found["prices"]) == ("PriceList", "example.com/v1", {"a": 3})
    assert [each["metadata"]["name"] for each in snapshot.objects() if each["kind"] == "PriceList"] == ["spot"]


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (fails, "the price list is empty"),
        (breaks, "the list can't be asked: KeyError: 'a'"),
        (never, "the list gave no answer within 0.05 s"),
        (no_json, "the list can't be asked: TypeError: Encoding objects of type object is unsupported"),
    ],
)
async def test_a_source_that_gives_nothing_is_a_gap(ask, reason, monkeypatch):
    monkeypatch.setattr(asking, "WITHIN", 0.05)
    mixed = feed(**{"the list": ask, "spot": spot})
    snapshot = await Snapshot.from_client(make_client(make_node("a")), feeds=[mixed])
    assert list(snapshot.of_kind(PRICES)) == ["spot"]
    (gap,) = snapshot.gaps
    assert str(gap) == f"pricelists.example.com: {reason}: the plugins that read it see no objects"


async def test_a_followed_cluster_asks_again_and_forgets_old_answers(monkeypatch):
    monkeypatch.setattr(asking, "PAUSE", 0.01)
    monkeypatch.setattr(asking, "OLD", 0.2)
    said = iter([3, 3, 5, None])

    async def changing(client, now):
        price = next(said, None)
        if price is None:
            raise FeedError("the price list is empty")
        return "spot", {"prices": {"a": price}}

    source = ClusterSource(make_client(make_node("a")), feeds=[feed(list=changing)])
    seen = []
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(source.run())
        await asyncio.wait_for(source.ready(), 10)

        def gone():
            found = source.snapshot().of_kind(PRICES)
            seen.extend(json.loads(raw)["prices"]["a"] for raw in found.values())
            return not found

        await until(gone)
        assert source.problems == ["the price list is empty"]
        assert [gap.reason for gap in source.snapshot().gaps] == ["the price list is empty"]
        running.cancel()
    assert sorted(set(seen)) in ([3, 5], [5])
