"""Which handler a request is for: a table of methods and paths, in which aiohttp's dispatcher looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, TypeVar, cast

from aiohttp import web
from yarl import URL

T = TypeVar("T")


class UnknownRoute(Exception):
    """A request that no route is for. `allowed`: the methods that its path has, none if there is no such path."""

    def __init__(self, allowed: tuple[str, ...] = ()) -> None:
        super().__init__(allowed)
        self.allowed = allowed


class Routes(Generic[T]):
    """Targets by method and path. A path has variable parts in braces, which are not empty and have no slash."""

    def __init__(self, routes: Iterable[tuple[str, str, T]]) -> None:
        self._dispatcher = web.UrlDispatcher()
        self._targets: dict[web.AbstractRoute, T] = {}
        self._methods: dict[str, None] = {}
        for method, path, target in routes:
            self._methods[method] = None
            route = self._dispatcher.add_route(method, path.replace("}", ":[^/]+}"), _not_called)
            self._targets[route] = target

    async def find(self, method: str, raw_path: str) -> tuple[T, Mapping[str, str]]:
        """Return the target of a method and an encoded path, and the variable parts, decoded. Raises UnknownRoute."""
        request = cast("web.Request", _Requested(method, URL.build(path=raw_path, encoded=True)))
        found = await self._dispatcher.resolve(request)
        if isinstance(found.http_exception, web.HTTPMethodNotAllowed):
            allowed = found.http_exception.allowed_methods
            raise UnknownRoute(tuple(each for each in self._methods if each in allowed))
        if found.http_exception is not None:
            raise UnknownRoute
        return self._targets[found.route], found


class _Requested:
    """What the dispatcher reads of a request."""

    def __init__(self, method: str, rel_url: URL) -> None:
        self.method = method
        self.rel_url = rel_url


async def _not_called(_: Any) -> web.StreamResponse:
    raise AssertionError("the target is called")
