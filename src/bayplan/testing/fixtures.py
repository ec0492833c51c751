"""Fixtures for pytest: `pytest_plugins = ["bayplan.testing.fixtures"]` in a conftest.py makes them available.

Only this module imports pytest. A fixture imports its dependencies when a test requests it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.testing import builders, live


if TYPE_CHECKING:
    from bayplan.testing.builders import Cluster
    from bayplan.testing.live import LiveCluster


@pytest.fixture
def offline_cluster() -> Callable[..., Cluster]:
    """Makes clusters in memory, in milliseconds: called like `bayplan.testing.make_cluster`."""
    return builders.make_cluster


@pytest.fixture
def live_cluster() -> Iterator[Callable[..., LiveCluster]]:
    """Makes clusters with an API server and a scheduler over HTTP: called like `bayplan.testing.LiveCluster`.

    They are stopped at the end of the test.
    """
    with ExitStack() as stack:

        def make(*plugins: Any, **options: Any) -> LiveCluster:
            return stack.enter_context(live.LiveCluster(*plugins, **options))

        yield make
