"""What a log line is about, as an argument of it: text where the log is text, a field of its own where it is JSON.

`log.info("pod %s bound to node %s", about_pod(pod), about_node(name))` reads the same in any log, and the names of pods
and nodes can be searched for as fields, under the names that klog gives them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

SCORES = 5
"""The level, below logging.DEBUG, of what is too much even for those who look for mistakes: klog's 10."""


class LogField(NamedTuple):
    """An argument of a log line. `name` and `value`: the field in JSON; `text`: what the line says."""

    name: str
    value: Any
    text: str

    def __str__(self) -> str:
        return self.text


class HasName(Protocol):
    """A pod, in whatever form."""

    @property
    def namespace(self) -> str:
        """The namespace."""

    @property
    def name(self) -> str:
        """The name."""


def about_pod(pod: HasName, field: str = "pod") -> LogField:
    """A pod; in a line about two pods, one of them needs another `field`."""
    return pod_named(pod.namespace, pod.name, field)


def pod_named(namespace: str, name: str, field: str = "pod") -> LogField:
    """A pod of which no more is known."""
    return LogField(field, {"name": name, "namespace": namespace}, f"{namespace}/{name}")


def about_node(name: str) -> LogField:
    """A node."""
    return LogField("node", {"name": name}, name)
