"""Shared by the tests of provisioning requests, which all run in virtual time."""

import pytest
from answering import answering

from bayplan.testing.virtual_time import VirtualTime


def pytest_asyncio_loop_factories():
    """All tests here run in virtual time."""
    return {"virtual": VirtualTime}


@pytest.fixture
async def here(request):
    """A scheduler that answers requests. At the end, nothing is assumed or in flight."""
    arguments = {}
    for mark in reversed([*request.node.iter_markers("scheduler")]):
        arguments |= mark.kwargs
    async with answering(**arguments) as requests:
        yield requests
        requests.story.nothing_is_held()
