"""Serves a cluster of a benchmark with the embedded API server, in another process."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayplan.testing.in_memory import load
from bayplan_devcluster.apiserver import ApiServer


@contextmanager
def served(folder: Path, objects: Callable[..., Iterable[Any]], *arguments: Any) -> Iterator[Path]:
    """Serve `objects(*arguments)`, which the other process calls. Yields the path of a kubeconfig in `folder`.

    Raises SystemExit if the server ends before it is ready.
    """
    kubeconfig = folder / "kubeconfig"
    process = multiprocessing.get_context("spawn").Process(
        target=_serve, args=(kubeconfig, objects, arguments), daemon=True
    )
    process.start()
    while not kubeconfig.exists():
        if not process.is_alive():
            raise SystemExit("the API server ended early")
        time.sleep(0.1)
    try:
        yield kubeconfig
    finally:
        process.terminate()
        process.join()


def _serve(kubeconfig: Path, objects: Callable[..., Iterable[Any]], arguments: tuple[Any, ...]) -> None:
    async def serve() -> None:
        server = ApiServer(alpha=True)
        load(server, *objects(*arguments))
        gc.freeze()
        async with server:
            draft = kubeconfig.with_suffix(".draft")
            draft.write_text(server.kubeconfig(), encoding="utf-8")
            draft.rename(kubeconfig)
            await asyncio.Event().wait()

    gc.disable()
    asyncio.run(serve())
