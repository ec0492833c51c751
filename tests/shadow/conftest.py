"""Shared by the tests of shadows: schedulers in virtual time."""

from tests.support.stories import here, loop_factories

__all__ = ["here"]  # a fixture
pytest_asyncio_loop_factories = loop_factories
