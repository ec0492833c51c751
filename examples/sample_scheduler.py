"""A plugin named `sample` with arguments, at two extension points, enabled by a configuration file.

It logs each pod in PreFilter, and its node in PostBind:

    bayplan run --config examples/sample-scheduler-config.yaml --plugin examples/sample_scheduler.py -v
    python examples/sample_scheduler.py --kubeconfig FILE       # does the same
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from pathlib import Path

from bayplan import CycleState, Nodes, Plugin, PodInfo, run

log = logging.getLogger("bayplan.sample")  # loggers below `bayplan` follow -v


@dataclass(frozen=True)
class SampleArguments:
    """The plugin's arguments in `pluginConfig`, with their defaults."""

    favoriteColor: str = "#326CE5"
    favoriteNumber: int = 7
    thanksTo: str = ""


class Sample(Plugin):
    """Logs calls and rejects nothing."""

    name = "sample"
    arguments = SampleArguments

    def __init__(self, args: SampleArguments) -> None:
        log.info("sample is enabled: %s", args)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        """Called once per attempt, before any node is filtered."""
        log.info("pre filter called for pod %s", pod.key)

    def post_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Called after the pod is bound."""
        log.info("pod %s is bound to %s", pod.key, node_name)


if __name__ == "__main__":
    configuration = Path(__file__).with_name("sample-scheduler-config.yaml")
    run(["--config", str(configuration), "--plugin", __file__, "-v", *sys.argv[1:]])
