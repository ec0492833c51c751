import asyncio

from tests.service.conftest import make_pod
from tests.support.waiting import PATIENCE

from bayplan.core.framework.status import Code
from bayplan.running.service.waiting_pods import AwaitedPod, AwaitedPods


async def test_the_last_plugin_allows_the_pod() -> None:
    waiting = AwaitedPods(AwaitedPod).add(make_pod(), {"a": 60, "b": 60})
    waiting.allow("a")
    assert waiting.pending_plugins == ["b"]
    waiting.allow("b")
    assert (await waiting.verdict()).code is Code.SUCCESS


async def test_allow_by_an_unknown_plugin_has_no_effect() -> None:
    waiting = AwaitedPods(AwaitedPod).add(make_pod(), {"a": 60})
    waiting.allow("other")
    assert waiting.pending_plugins == ["a"]
    waiting.reject("a", "no")
    await waiting.verdict()


async def test_the_first_rejection_counts() -> None:
    waiting = AwaitedPods(AwaitedPod).add(make_pod(), {"a": 60, "b": 60})
    waiting.reject("b", "too late for this")
    waiting.reject("a", "something else")
    waiting.allow("a")
    status = await waiting.verdict()
    assert (status.code, status.plugin, status.message) == (Code.UNSCHEDULABLE, "b", "too late for this")


async def test_a_timeout_rejects_the_pod() -> None:
    waiting = AwaitedPods(AwaitedPod).add(make_pod(), {"a": 0.01, "b": 60})
    async with asyncio.timeout(PATIENCE):
        status = await waiting.verdict()
    assert status.plugin == "a"
    assert status.message == "rejected due to timeout after waiting 0.01s at plugin a"


async def test_pods_are_found_by_uid_until_removed() -> None:
    pods = AwaitedPods(AwaitedPod)
    waiting = pods.add(make_pod(uid="u"), {"a": 60})
    assert pods.get("u") is waiting
    assert list(pods) == [waiting]
    pods.remove("u")
    pods.remove("u")
    assert len(pods) == 0
    waiting.reject("", "the end")
    await waiting.verdict()


async def test_a_pod_is_preempted_unless_it_is_already_decided() -> None:
    waiting = AwaitedPods(AwaitedPod).add(make_pod(), {"a": 60})
    assert waiting.preempt("Preempts", "preempted")
    assert not waiting.preempt("Preempts", "preempted")
    status = await waiting.verdict()
    assert (status.code, status.plugin, status.message) == (Code.ERROR, "Preempts", "preempted")
