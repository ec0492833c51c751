"""A plugin named `sample` at two extension points, with arguments of its own, enabled by a configuration.

It says which pods PreFilter is asked about, and where they were bound:

    bayplan run --config examples/sample-scheduler-config.yaml --plugin examples/sample_scheduler.py -v
    python examples/sample_scheduler.py --kubeconfig FILE       # the same
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
    """What the configuration may say under `pluginConfig`, with what it is where it says nothing."""

    favoriteColor: str = "#326CE5"
    favoriteNumber: int = 7
    thanksTo: str = ""


class Sample(Plugin):
    """Takes part and has nothing against anything."""

    name = "sample"
    arguments = SampleArguments

    def __init__(self, args: SampleArguments) -> None:
        log.info("sample is enabled: %s", args)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        """Called once for each attempt, before any node is looked at."""
        log.info("pre filter called for pod %s", pod.key)

    def post_bind(self, cycle: CycleState, pod: PodInfo, node_name: str) -> None:
        """Called when the pod is bound."""
        log.info("pod %s is bound to %s", pod.key, node_name)


if __name__ == "__main__":
    configuration = Path(__file__).with_name("sample-scheduler-config.yaml")
    run(["--config", str(configuration), "--plugin", __file__, "-v", *sys.argv[1:]])
