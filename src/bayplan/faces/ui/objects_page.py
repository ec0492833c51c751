"""The page about any object: its labels, conditions, events and YAML."""

from __future__ import annotations

import asyncio

from aiohttp import web

from bayplan.core.api.kinds import NODE, POD
from bayplan.faces.ui.about import about, document_of, kind_of
from bayplan.faces.ui.app import PageRequest
from bayplan.faces.ui.object_yaml import object_yaml

LARGEST_YAML = 128 * 1024
"""Bytes of an object, as JSON, that is shown as YAML, which takes a second."""


async def object_page(visit: PageRequest, resource: str, *key: str) -> web.Response:
    """Return all that is known of an object. The page isn't refreshed, so that it can be read and copied."""
    snapshot, full_key = await visit.snapshot(), "/".join(key)
    kind = kind_of(snapshot, resource)
    found = about(snapshot, kind, full_key)
    document, small = document_of(snapshot, kind, full_key), len(snapshot.of_kind(kind)[full_key]) <= LARGEST_YAML
    return visit.page(
        "object.html",
        about=found,
        events=await visit.source.events(kind, full_key, found.uid),
        yaml=await asyncio.to_thread(object_yaml, document) if small else "",
        page_of_it=f"/{resource}/{full_key}" if kind in {POD, NODE} else "",
        every=0,
        title=f"{found.name} {full_key}",
    )
