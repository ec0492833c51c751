"""Arguments of log lines that are text in a text log, and fields in a JSON log.

`log.info("pod %s bound to node %s", about_pod(pod), about_node(name))` has the same text in both. In JSON, pods and
nodes are also fields, with klog's names, so that you can search for them.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

SCORES = 5
"""A log level below logging.DEBUG, for the scores of every node. Like klog's level 10."""


class LogField(NamedTuple):
    """An argument of a log line: `name` and `value` are the field in JSON, `text` is its text."""

    name: str
    value: Any
    text: str

    def __str__(self) -> str:
        return self.text


class HasName(Protocol):
    """A pod in any form."""

    @property
    def namespace(self) -> str:
        """The namespace."""

    @property
    def name(self) -> str:
        """The name."""


def about_pod(pod: HasName, field: str = "pod") -> LogField:
    """A pod. In a line about two pods, give one of them another `field`."""
    return pod_named(pod.namespace, pod.name, field)


def pod_named(namespace: str, name: str, field: str = "pod") -> LogField:
    """A pod for the log, by name only."""
    return LogField(field, {"name": name, "namespace": namespace}, f"{namespace}/{name}")


def about_node(name: str) -> LogField:
    """A node."""
    return LogField("node", {"name": name}, name)
