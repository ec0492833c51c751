"""The promise that rejected pods don't keep the scheduler busy: their own attempts don't make it try them again."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from bayplan.core.framework import interface
from bayplan.core.framework.profile import Point
from bayplan.foundations.lazy import on_use
from bayplan.testing.contract.examples import Example
from bayplan.testing.contract.promise import Breach, promise
from bayplan.testing.contract.subject import Subject

with on_use():
    from bayplan.testing.contract import retry_run


SECONDS = 200.0
"""How long a scheduler runs for an example. Shorter than the time after which every rejected pod is tried again."""
MOST_ATTEMPTS = 3
"""A pod in a cluster that doesn't change needs one attempt. Backoff would allow more than 20 in this time."""


@promise(
    "retries",
    "rejecting pods doesn't make the scheduler try them, or each other, again and again",
    lambda subject: subject.takes_part(Point.RESERVE, Point.PERMIT) or subject.has(interface.Background),
)
def retries(subject: Subject, example: Example) -> None:
    """In a cluster that doesn't change, a scheduler with this plugin tries pods that it rejects only a few times.

    There are two equal pods: when one is rejected after Reserve, its node has room again, and the other one may be
    requeued. The plugin's background task runs, and its PreBind and Bind don't.
    """
    with ThreadPoolExecutor(1) as thread:  # the caller's thread may run an event loop
        attempts = thread.submit(retry_run.attempts_of, subject, example, SECONDS).result()
    if attempts > MOST_ATTEMPTS:
        raise Breach(
            f"nothing changes in the cluster, and the plugin rejects two equal pods in {attempts} attempts each in "
            f"{SECONDS:g} s: each rejection requeues the other pod",
            "register in events() only what can help, with hints that return Hint.SKIP for a pod that was rejected",
        )
