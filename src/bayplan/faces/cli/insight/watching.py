"""`bayplan explain POD --watch`: says why a pod is pending, again whenever the reason changes, until it has a node."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import click

from bayplan.answers.insight.insight import Insight
from bayplan.answers.snapshots.snapshot import Snapshot
from bayplan.core.api.kinds import POD
from bayplan.faces.asking.sources import ClusterSource
from bayplan.faces.cli.insight.cluster_options import AskedCluster
from bayplan.faces.cli.standard_streams import EXIT_INTERRUPTED
from bayplan.running.client.client import Client
from bayplan.running.client.connection import connect
from bayplan.running.client.errors import ApiError

EXIT_GONE = 1
PAUSE = 0.5
"""Seconds between two looks at what has changed."""

Say = Callable[[str], None]


def watch(asked: AskedCluster, key: str) -> None:
    """Print a line for each reason, and end the process: with 0 once the pod has a node, with 1 if it is gone."""
    logging.basicConfig(level=logging.ERROR)  # kinds that the server lacks are no news
    insight = Insight(asked.snapshot, asked.configuration, asked.plugins, seed=asked.seed, gates=asked.gates)
    insight.pod(key)

    def say(text: str) -> None:
        click.echo(f"{datetime.now(UTC).astimezone():%H:%M:%S} {text}")

    try:
        status = asyncio.run(_watch(asked, insight, key, say))
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    raise SystemExit(status)


async def _watch(asked: AskedCluster, insight: Insight, key: str, say: Say) -> int:

    async with connect(asked.source.kubeconfig, asked.source.context) as client:
        return await follow_pod(client, insight, key, say)


async def follow_pod(client: Client, insight: Insight, key: str, say: Say, pause: float = PAUSE) -> int:
    """Call `say` with each new reason why a pod is pending. Returns the exit status once it has a node or is gone."""
    handle = insight.world.handle
    source = ClusterSource(client, kinds=handle.served, feeds=handle.feeds.values())
    following = asyncio.create_task(source.run(), name="follow the cluster")
    try:
        await source.ready()
        said: tuple[str, list[str]] | None = None
        while True:
            version, problems = source.version, source.problems
            reason = await asyncio.to_thread(_reason, insight, source.snapshot(), key)
            if reason is None:
                node = await _node_of(client, key)
                say(f"pod {key} is gone" if node is None else f"placed on node {node}")
                return EXIT_GONE if node is None else 0
            if said is None or said[0] != reason.text:
                say(reason.text)
            if reason.node:
                return 0
            for problem in problems:
                if said is None or problem not in said[1]:
                    say(f"warning: {problem}")
            said = reason.text, problems
            while (source.version, source.problems) == (version, problems):  # noqa: ASYNC110 - a problem sets no event
                await asyncio.sleep(pause)
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following


class _Reason:
    def __init__(self, text: str, node: str = "") -> None:
        self.text = text
        self.node = node


def _reason(insight: Insight, snapshot: Snapshot, key: str) -> _Reason | None:
    """Why the pod is pending in a snapshot, or its node; None if it isn't there."""
    insight.move(snapshot)
    pod = insight.world.pod(key)
    if pod is None:
        return None
    if pod.node_name:
        return _Reason(f"placed on node {pod.node_name}", pod.node_name)
    found = insight.explain_all(pod.namespace, lambda each: each.key == key, examples=0)
    return _Reason(f"pending: {found.causes[0].message}")


async def _node_of(client: Client, key: str) -> str | None:
    """The node of a pod that may have terminated already; None if there is no such pod."""
    namespace, _, name = key.partition("/")
    try:
        pod: Any = await client.get(POD, name, namespace)
    except ApiError as error:
        if error.status != 404:
            raise
        return None
    return pod.spec.nodeName or None
