"""Plugin: the base class of plugins, with the list of all extension points.

A plugin is any object with a name and some of these methods; what it implements decides where it runs. Each method is a
protocol of its own in `interface.py` or `gangs.py`. Profiles create one instance each, and it is called by one thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar


class Plugin:
    """The base class of all plugins. `name` identifies the plugin in configuration, messages and metrics.

    Implement the methods of the extension points that the plugin takes part in:

        def pre_enqueue(self, pod) -> Answer
        def sort_key(self, pod, queued_at) -> Any
        def pre_filter(self, cycle, pod, nodes) -> Answer | NodeNames
        def add_pod(self, cycle, pod, added, node) -> Answer
        def remove_pod(self, cycle, pod, removed, node) -> Answer
        def filter(self, cycle, pod, node) -> Answer
        def filter_nodes(self, cycle, pod, nodes) -> Rejections | None
        def post_filter(self, cycle, pod, diagnosis, what_if) -> PostFilterResult | Shortlist
        def explain_post_filter(self, cycle, pod, diagnosis, what_if) -> Sequence[FailedPreemption]
        def pre_score(self, cycle, pod, nodes) -> Answer
        def score(self, cycle, pod, node) -> int
        def score_nodes(self, cycle, pod, nodes) -> Int64
        def normalize_scores(self, cycle, pod, scores, nodes) -> Int64
        def reserve(self, cycle, pod, node_name) -> Answer
        def unreserve(self, cycle, pod, node_name) -> None
        def contends(self, pod, other) -> bool
        def release(self, cycle, pod, node_name) -> None
        def permit(self, cycle, pod, node_name) -> Answer | Wait
        def gang_of(self, pod) -> Gang | None
        def fewer_members(self, gang, number) -> Remedy | None
        def queued_with(self, pod) -> Hashable
        def gang_decided(self, gang, outcome, message) -> None
        def gang_give_back(self, gang, rejected) -> Status | None
        def gang_post_filter(self, gang, nodes) -> GangTrial | None
        def generate_placements(self, gang, nodes) -> Sequence[Placement] | Status | None
        def score_placement(self, gang, placement, placed) -> int
        def normalize_placement_scores(self, gang, scores) -> Int64
        def placement_bound(self, gang, placement) -> int | None
        def pre_bind(self, cycle, pod, node_name) -> Answer | Awaitable[Answer]
        def pre_bind_pre_flight(self, cycle, pod, node_name) -> Answer
        def bind(self, cycle, pod, node_name) -> Answer | Awaitable[Answer]
        def post_bind(self, cycle, pod, node_name) -> None
        async def background(self) -> None
        def allocations(self, cycle) -> Mapping[str, AllocationResult]
        def explain(self, cycle, pod, node) -> Details | None
        def events(self) -> Iterable[EventHint]
        def sign(self, pod) -> Hashable
        def rests_on(self, pod, nodes) -> Hashable | OnlyNow
        def for_resizes(self) -> Any | None

    Answer is a Status, None for success, or a string: the reason of a rejection. `bayplan.core.framework.interface`
    documents each extension point, and docs/plugins.md has an example of each.
    """

    name: ClassVar[str]
    reads_pods: bool = True
    """Whether the plugin's verdicts and scores depend on the pods of a node, or on what `NodeColumns` keeps of it.
    Set it to False if the plugin reads only the node object."""
    arguments: ClassVar[type[Any] | None] = None
    """The type of the plugin's arguments (a msgspec Struct or a dataclass); None if the plugin takes no arguments."""
    permissions: ClassVar[Sequence[Mapping[str, Sequence[str]]]] = ()
    """What the plugin reads and writes beside what every scheduler may: rules of a ClusterRole, which
    `bayplan manifests` grants."""

    @classmethod
    def definitions(cls) -> Iterable[Mapping[str, Any]]:
        """The CustomResourceDefinitions that the plugin needs, which `bayplan manifests` prints, too."""
        return ()
