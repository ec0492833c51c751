"""The command-line flags of kube-scheduler, and how Bayplan treats them.

In the order and groups of `kube-scheduler --help` (cmd/kube-scheduler/app/options/options.go). A flag works, or is
accepted with a warning because it has no effect, or is rejected because ignoring it would surprise the user.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FlagType(Enum):
    """The type of a flag's value; the enum's value is its name in the help."""

    STRING = "string"
    STRINGS = "strings"
    FILE = "file"
    YAML_FILE = "yaml file"
    OUTPUT_FILE = "output file"
    INT = "int"
    FLOAT = "float"
    DURATION = "duration"
    BOOL = ""


class Treatment(Enum):
    """How a flag is treated."""

    WORKS = "works"
    WARNED = "accepted with a warning"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of kube-scheduler. `text` says what it does, or why it has no effect."""

    name: str
    group: str
    kind: FlagType
    treatment: Treatment
    text: str
    default: str = ""
    """The default in the help."""

    @property
    def parameter(self) -> str:
        """Its parameter name in Python."""
        return self.name.replace("-", "_")


WORKS, WARNED, REJECTED = Treatment.WORKS, Treatment.WARNED, Treatment.REJECTED

NO_PROFILING = "there is no Go process to profile"
UNBUFFERED = "the log is not buffered"

_GROUPS: dict[str, tuple[tuple[str, FlagType, Treatment, str, str], ...]] = {
    "Misc flags": (
        ("config", FlagType.YAML_FILE, WORKS, "Read this KubeSchedulerConfiguration.", ""),
        ("master", FlagType.STRING, WORKS, "URL of the API server; overrides the kubeconfig's.", ""),
        (
            "write-config-to",
            FlagType.OUTPUT_FILE,
            WORKS,
            "Write the configuration with all defaults and merged plugins, and exit.",
            "",
        ),
    ),
    "Secure serving flags": (
        ("bind-address", FlagType.STRING, WORKS, "Address on which to serve endpoints.", "0.0.0.0"),  # noqa: S104 - upstream's
        (
            "cert-dir",
            FlagType.STRING,
            WORKS,
            "Directory for a self-signed certificate. Default: keep it in memory.",
            "",
        ),
        ("disable-http2-serving", FlagType.BOOL, WARNED, "HTTP/2 is never served", ""),
        ("http2-max-streams-per-connection", FlagType.INT, REJECTED, "HTTP/2 is not served", ""),
        ("permit-address-sharing", FlagType.BOOL, WARNED, "the address is always shared", ""),
        ("permit-port-sharing", FlagType.BOOL, WORKS, "Allow several processes to serve on the same port.", ""),
        ("secure-port", FlagType.INT, WORKS, "HTTPS port on which to serve endpoints; 0 to serve none.", "10259"),
        (
            "tls-cert-file",
            FlagType.FILE,
            WORKS,
            "Serving certificate, reloaded when it changes. Default: a self-signed one.",
            "",
        ),
        (
            "tls-cipher-suites",
            FlagType.STRINGS,
            WORKS,
            "Allowed cipher suites, by their names in Go. Those of TLS 1.3 are always allowed.",
            "",
        ),
        (
            "tls-curve-preferences",
            FlagType.STRINGS,
            REJECTED,
            "its values are IDs of Go's TLS library, and Python's can't set several curves",
            "",
        ),
        (
            "tls-min-version",
            FlagType.STRING,
            WORKS,
            "Minimum TLS version: VersionTLS12 or VersionTLS13.",
            "VersionTLS12",
        ),
        ("tls-private-key-file", FlagType.FILE, WORKS, "Private key of --tls-cert-file.", ""),
        (
            "tls-sni-cert-key",
            FlagType.STRINGS,
            WORKS,
            "CERTIFICATE,KEY[:NAME,...]: certificate for these names (default: its own). May be repeated.",
            "",
        ),
    ),
    "Authentication flags": (
        (
            "authentication-kubeconfig",
            FlagType.FILE,
            WORKS,
            "Kubeconfig of the API server that reviews tokens. Default: the scheduler's.",
            "",
        ),
        (
            "authentication-skip-lookup",
            FlagType.BOOL,
            WORKS,
            "Don't look up the cluster's CAs for client certificates and front proxies.",
            "false",
        ),
        (
            "authentication-token-webhook-cache-ttl",
            FlagType.DURATION,
            WORKS,
            "How long to cache token reviews.",
            "10s",
        ),
        (
            "authentication-tolerate-lookup-failure",
            FlagType.BOOL,
            WORKS,
            "Serve even if that lookup fails.",
            "true",
        ),
        (
            "client-ca-file",
            FlagType.FILE,
            WORKS,
            "CAs of client certificates, reloaded when the file changes. Default: the cluster's.",
            "",
        ),
        (
            "requestheader-allowed-names",
            FlagType.STRINGS,
            WORKS,
            "Common names that front proxies may have.",
            "",
        ),
        (
            "requestheader-client-ca-file",
            FlagType.FILE,
            WORKS,
            "CAs of front proxies, reloaded when the file changes. Default: the cluster's.",
            "",
        ),
        (
            "requestheader-extra-headers-prefix",
            FlagType.STRINGS,
            WORKS,
            "Prefixes of the headers in which front proxies send extra information about the user.",
            "x-remote-extra-",
        ),
        (
            "requestheader-group-headers",
            FlagType.STRINGS,
            WORKS,
            "Headers in which front proxies send the user's groups.",
            "x-remote-group",
        ),
        (
            "requestheader-uid-headers",
            FlagType.STRINGS,
            WORKS,
            "Headers in which front proxies send the user's uid; the first one present applies.",
            "",
        ),
        (
            "requestheader-username-headers",
            FlagType.STRINGS,
            WORKS,
            "Headers in which front proxies send the user name; the first one present applies.",
            "x-remote-user",
        ),
    ),
    "Authorization flags": (
        (
            "authorization-always-allow-paths",
            FlagType.STRINGS,
            WORKS,
            "Paths that need no authorization. A trailing * matches anything.",
            "/healthz,/readyz,/livez",
        ),
        (
            "authorization-kubeconfig",
            FlagType.FILE,
            WORKS,
            "Kubeconfig of the API server that reviews access. Default: the scheduler's.",
            "",
        ),
        (
            "authorization-webhook-cache-authorized-ttl",
            FlagType.DURATION,
            WORKS,
            "How long to cache granted access.",
            "10s",
        ),
        (
            "authorization-webhook-cache-unauthorized-ttl",
            FlagType.DURATION,
            WORKS,
            "How long to cache denied access.",
            "10s",
        ),
    ),
    "Deprecated flags": (
        ("contention-profiling", FlagType.BOOL, WARNED, NO_PROFILING, "true"),
        (
            "kube-api-burst",
            FlagType.INT,
            WORKS,
            "Burst of requests to the API server; --kube-api-qps (default: 50) limits further ones.",
            "",
        ),
        ("kube-api-content-type", FlagType.STRING, WARNED, "Bayplan always uses JSON", ""),
        (
            "kube-api-qps",
            FlagType.FLOAT,
            WORKS,
            "Requests per second to the API server. Default: no limit, unless --kube-api-burst is set.",
            "",
        ),
        (
            "kubeconfig",
            FlagType.FILE,
            WORKS,
            "Path to a kubeconfig; overrides --config. Default: KUBECONFIG, ~/.kube/config, or a service account.",
            "",
        ),
        (
            "pod-max-in-unschedulable-pods-duration",
            FlagType.DURATION,
            WORKS,
            "How long an unschedulable pod waits for an event before it is retried anyway.",
            "5m0s",
        ),
        ("profiling", FlagType.BOOL, WARNED, NO_PROFILING, "true"),
    ),
    "Leader election flags": (
        (
            "leader-elect",
            FlagType.BOOL,
            WORKS,
            "Schedule only while holding a lease. Without --config, the default is false.",
            "true",
        ),
        (
            "leader-elect-lease-duration",
            FlagType.DURATION,
            WORKS,
            "How long to wait before taking over a lease that is not renewed.",
            "15s",
        ),
        (
            "leader-elect-renew-deadline",
            FlagType.DURATION,
            WORKS,
            "How long to retry renewing the lease before giving up.",
            "10s",
        ),
        ("leader-elect-resource-lock", FlagType.STRING, WORKS, "Type of the lock: leases.", "leases"),
        ("leader-elect-resource-name", FlagType.STRING, WORKS, "Name of the lease.", "kube-scheduler"),
        ("leader-elect-resource-namespace", FlagType.STRING, WORKS, "Namespace of the lease.", "kube-system"),
        (
            "leader-elect-retry-period",
            FlagType.DURATION,
            WORKS,
            "Time between attempts to acquire or renew the lease.",
            "2s",
        ),
    ),
    "Feature gate flags": (
        ("emulated-version", FlagType.STRINGS, REJECTED, "Bayplan supports only Kubernetes 1.36", ""),
        (
            "feature-gates",
            FlagType.STRINGS,
            WORKS,
            "Feature gates, as in A=true,B=false. Unsupported values are rejected with the reason.",
            "",
        ),
        (
            "min-compatibility-version",
            FlagType.STRINGS,
            REJECTED,
            "Bayplan supports only Kubernetes 1.36",
            "",
        ),
    ),
    "Metrics flags": (
        (
            "allow-metric-labels",
            FlagType.STRINGS,
            WORKS,
            "METRIC,LABEL=VALUE,...: values of a label; others become 'unexpected'. May be repeated.",
            "",
        ),
        (
            "allow-metric-labels-manifest",
            FlagType.FILE,
            WORKS,
            'YAML file with the same: "METRIC,LABEL": "VALUE,..."',
            "",
        ),
        ("disabled-metrics", FlagType.STRINGS, WORKS, "Full names of metrics to hide.", ""),
        (
            "show-hidden-metrics-for-version",
            FlagType.STRING,
            WORKS,
            "Previous minor version whose hidden metrics to show. There are none.",
            "",
        ),
    ),
    "Logs flags": (
        ("log-flush-frequency", FlagType.DURATION, WARNED, UNBUFFERED, "5s"),
        ("log-json-info-buffer-size", FlagType.STRING, WARNED, UNBUFFERED, ""),
        ("log-json-split-stream", FlagType.BOOL, REJECTED, "the whole log goes to standard error", ""),
        ("log-text-info-buffer-size", FlagType.STRING, WARNED, UNBUFFERED, ""),
        ("log-text-split-stream", FlagType.BOOL, REJECTED, "the whole log goes to standard error", ""),
        ("logging-format", FlagType.STRING, WORKS, 'Log format: "text" or "json".', "text"),
        (
            "v",
            FlagType.INT,
            WORKS,
            "Log level. 2: what happens to each pod; 4: also why; 10: also scores. -v is 2, -vv is 4.",
            "0",
        ),
        ("vmodule", FlagType.STRING, WARNED, "its patterns are for source files of kube-scheduler", ""),
    ),
    "Global flags": (("version", FlagType.STRING, WORKS, "Print the version and exit.", ""),),
}

FLAGS: tuple[Flag, ...] = tuple(
    Flag(name, group, kind, treatment, text, default)
    for group, flags in _GROUPS.items()
    for name, kind, treatment, text, default in flags
)
