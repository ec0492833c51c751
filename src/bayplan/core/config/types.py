"""KubeSchedulerConfiguration (`kubescheduler.config.k8s.io/v1`) as typed values with upstream's defaults.

Mirrors k8s.io/kube-scheduler/config/v1/types.go and apis/config/v1/defaults.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec

from bayplan.core.api import durations
from bayplan.core.framework.profile import Point

API_VERSION = "kubescheduler.config.k8s.io/v1"
KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER_NAME = "default-scheduler"
OUR_SCHEDULER_NAME = "bayplan-scheduler"
"""The name of a scheduler that `bayplan run` serves by default."""
MULTI_POINT = "multiPoint"
POD_GROUP_POST_FILTER = "podGroupPostFilter"
DEFAULT_HTTP_TIMEOUT = "5s"
"""How long a request to an extender may take. Mirrors DefaultExtenderTimeout (pkg/scheduler/extender.go)."""
DEFAULT_QPS = 50.0
DEFAULT_BURST = 100
PROTOBUF = "application/vnd.kubernetes.protobuf"

Duration = Annotated[str, msgspec.Meta(examples=["15s"])]
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class PluginReference(msgspec.Struct):
    """A plugin by name. `weight` is the weight of its score; 0 means 1."""

    name: str
    weight: Int32 = 0


class PluginSet(msgspec.Struct):
    """Plugins to enable at a point, in addition to the default ones, and default ones to disable (`*` for all)."""

    enabled: list[PluginReference] = []
    disabled: list[PluginReference] = []


class Plugins(msgspec.Struct, kw_only=True):
    """Plugins by extension point. `multiPoint` enables a plugin at all points that it implements."""

    preEnqueue: PluginSet = msgspec.field(default_factory=PluginSet)
    queueSort: PluginSet = msgspec.field(default_factory=PluginSet)
    preFilter: PluginSet = msgspec.field(default_factory=PluginSet)
    filter: PluginSet = msgspec.field(default_factory=PluginSet)
    postFilter: PluginSet = msgspec.field(default_factory=PluginSet)
    preScore: PluginSet = msgspec.field(default_factory=PluginSet)
    score: PluginSet = msgspec.field(default_factory=PluginSet)
    reserve: PluginSet = msgspec.field(default_factory=PluginSet)
    permit: PluginSet = msgspec.field(default_factory=PluginSet)
    preBind: PluginSet = msgspec.field(default_factory=PluginSet)
    bind: PluginSet = msgspec.field(default_factory=PluginSet)
    postBind: PluginSet = msgspec.field(default_factory=PluginSet)
    placementGenerate: PluginSet = msgspec.field(default_factory=PluginSet)
    placementScore: PluginSet = msgspec.field(default_factory=PluginSet)
    podGroupPostFilter: PluginSet = msgspec.field(default_factory=PluginSet)
    """Since 1.37: who preempts for a whole PodGroup. No extension point of Bayplan's; see `merging.effective_sets`."""
    multiPoint: PluginSet = msgspec.field(default_factory=PluginSet)

    def at(self, point: Point) -> PluginSet:
        """The plugins of one point."""
        found: PluginSet = getattr(self, point.value)
        return found

    def enabled_names(self) -> Iterator[str]:
        """The names of all enabled plugins, with duplicates."""
        for name in self.__struct_fields__:
            yield from (plugin.name for plugin in getattr(self, name).enabled)


class PluginConfig(msgspec.Struct):
    """The arguments of a plugin as in the file; `plugin_arguments` decodes them."""

    name: str
    args: dict[str, Any] = {}


class KubeSchedulerProfile(msgspec.Struct, kw_only=True):
    """A scheduler name and its plugins."""

    schedulerName: str = ""
    percentageOfNodesToScore: Int32 | None = None
    plugins: Plugins = msgspec.field(default_factory=Plugins)
    pluginConfig: list[PluginConfig] = []


class LeaderElection(msgspec.Struct, kw_only=True):
    """How one of several schedulers becomes the leader. Durations as in `15s`."""

    leaderElect: bool = True
    leaseDuration: Duration = "15s"
    renewDeadline: Duration = "10s"
    retryPeriod: Duration = "2s"
    resourceLock: str = "leases"
    resourceName: str = "kube-scheduler"
    resourceNamespace: str = "kube-system"

    def __post_init__(self) -> None:
        """As in Go, empty and zero values become the defaults."""
        for field in msgspec.structs.fields(LeaderElection):
            value = getattr(self, field.name)
            if isinstance(value, str) and (not value or _is_zero(value)):
                setattr(self, field.name, field.default)


def _is_zero(duration: str) -> bool:
    try:
        return not durations.parse(duration)
    except ValueError:
        return False


class ClientConnection(msgspec.Struct, kw_only=True):
    """The connection to the API server. It uses JSON, whatever the content types are.

    Requests are limited only if `qps` or `burst` is set; None means not set.
    """

    kubeconfig: str = ""
    acceptContentTypes: str = ""
    contentType: str = PROTOBUF
    qps: float | None = None
    burst: Int32 | None = None

    def __post_init__(self) -> None:
        """As in Go, empty and zero values become the defaults."""
        self.contentType = self.contentType or PROTOBUF
        self.qps = self.qps or None
        self.burst = self.burst or None

    @property
    def limit(self) -> tuple[float, int] | None:
        """Requests per second and burst, or None for no limit. As in client-go, a negative `qps` means no limit."""
        if self.qps is None and self.burst is None:
            return None
        qps = DEFAULT_QPS if self.qps is None else self.qps
        return (qps, DEFAULT_BURST if self.burst is None else self.burst) if qps > 0 else None


class ExtenderManagedResource(msgspec.Struct, kw_only=True):
    """An extended resource that an extender manages."""

    name: str
    ignoredByScheduler: bool = False


class ExtenderTLSConfig(msgspec.Struct, kw_only=True):
    """TLS for the connection to an extender. The data fields are base64."""

    insecure: bool = False
    serverName: str = ""
    certFile: str = ""
    keyFile: str = ""
    caFile: str = ""
    certData: str = ""
    keyData: str = ""
    caData: str = ""


class Extender(msgspec.Struct, kw_only=True):
    """An HTTP extender."""

    urlPrefix: str = ""
    filterVerb: str = ""
    preemptVerb: str = ""
    prioritizeVerb: str = ""
    weight: int = 0
    bindVerb: str = ""
    enableHTTPS: bool = False
    tlsConfig: ExtenderTLSConfig | None = None
    httpTimeout: Duration = DEFAULT_HTTP_TIMEOUT
    nodeCacheCapable: bool = False
    managedResources: list[ExtenderManagedResource] = []
    ignorable: bool = False

    def __post_init__(self) -> None:
        """As in Go, an empty or zero timeout becomes the default."""
        if not self.httpTimeout or _is_zero(self.httpTimeout):
            self.httpTimeout = DEFAULT_HTTP_TIMEOUT


class KubeSchedulerConfiguration(msgspec.Struct, kw_only=True):
    """The configuration in a file."""

    apiVersion: str = API_VERSION
    kind: str = KIND
    parallelism: Int32 = 16
    leaderElection: LeaderElection = msgspec.field(default_factory=LeaderElection)
    clientConnection: ClientConnection = msgspec.field(default_factory=ClientConnection)
    enableProfiling: bool = True
    enableContentionProfiling: bool | None = None
    percentageOfNodesToScore: Int32 = 0
    podInitialBackoffSeconds: int = 1
    podMaxBackoffSeconds: int = 10
    profiles: list[KubeSchedulerProfile] = []
    extenders: list[Extender] = []
    delayCacheUntilActive: bool = False

    def __post_init__(self) -> None:
        if not self.profiles:
            self.profiles = [KubeSchedulerProfile()]
        if len(self.profiles) == 1:
            self.profiles[0].schedulerName = self.profiles[0].schedulerName or DEFAULT_SCHEDULER_NAME
        if self.enableContentionProfiling is None:
            self.enableContentionProfiling = self.enableProfiling
