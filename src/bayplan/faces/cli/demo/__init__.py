"""`bayplan demo`: its nodes and manifests (`stage`), the run (`show`), what it observes, and its output (`screens`)."""

from bayplan.faces.cli.demo.command import demo

__all__ = ["demo"]
