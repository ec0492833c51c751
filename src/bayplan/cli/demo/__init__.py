"""`bayplan demo`: the stage (nodes and manifests), the show, who watches it, and how it is shown."""

from bayplan.cli.demo.command import demo

__all__ = ["demo"]
