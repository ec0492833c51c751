"""Assistants for tests: what the SDK's client gets from a server about a cluster."""

import json
from contextlib import asynccontextmanager

from mcp import Client

from bayplan.faces.asking.asking import Asking
from bayplan.faces.asking.running import following
from bayplan.faces.asking.served_questions import HistoryQuestions, ServedQuestions
from bayplan.faces.asking.sources import FileSource
from bayplan.faces.assistants.recordings import RecordingQuestions
from bayplan.faces.assistants.server import AssistantServer
from bayplan.insight import Insight, Snapshot


@asynccontextmanager
async def assistant(*objects, source=None, longest=30.0, history="", recording="", plugins=(), **options):
    """The SDK's client of a server in this process, about objects or a source."""
    source = source or FileSource(Snapshot.of(objects, source="file cluster.yaml"))
    asking = Asking(source, Insight(Snapshot()), longest)
    past = [HistoryQuestions(history, Insight(Snapshot()), longest)] if history else []
    if recording:
        past.append(RecordingQuestions(str(recording), plugins, Insight(Snapshot()), longest))
    server = AssistantServer(ServedQuestions(asking, *past), "file cluster.yaml")
    try:
        async with following(asking), Client(server.sdk, **options) as client:
            yield client
    finally:
        for each in past:
            each.close()


async def called(client, name, **arguments):
    """What Bayplan says of an answer, and the answer as JSON."""
    result = await client.call_tool(name, {**arguments, "output": "json"})
    assert not result.is_error, result.content
    said, answer = (block.text for block in result.content)
    return said, json.loads(answer)


async def refused(client, name, **arguments):
    """Why a call has no answer."""
    result = await client.call_tool(name, arguments)
    assert result.is_error, result.content
    assert "no answer" in result.content[0].text
    return json.loads(result.content[1].text)["error"]
