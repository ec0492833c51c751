"""The command-line flags of kube-scheduler, and what becomes of each here.

In the order and the groups of `kube-scheduler --help` (cmd/kube-scheduler/app/options/options.go). A flag is of effect,
or is taken with a warning because what it sets is not there yet or cannot be set, or is refused where disregarding it
would not be what its user wants.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a flag takes; the value is what help calls it."""

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
    """What becomes of a flag."""

    WORKS = "works"
    WARNED = "accepted with a warning"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of kube-scheduler. `text`: what it does, or the reason why it does nothing."""

    name: str
    group: str
    kind: Kind
    treatment: Treatment
    text: str
    default: str = ""
    """The default that help shows."""

    @property
    def parameter(self) -> str:
        """Its name in Python."""
        return self.name.replace("-", "_")


WORKS, WARNED, REFUSED = Treatment.WORKS, Treatment.WARNED, Treatment.REFUSED

NO_PROFILING = "there is no Go program to profile"
UNBUFFERED = "log lines are written at once, to standard error"

_GROUPS: dict[str, tuple[tuple[str, Kind, Treatment, str, str], ...]] = {
    "Misc flags": (
        ("config", Kind.YAML_FILE, WORKS, "Read this KubeSchedulerConfiguration.", ""),
        ("master", Kind.STRING, WORKS, "URL of the API server; goes before the kubeconfig's.", ""),
        (
            "write-config-to",
            Kind.OUTPUT_FILE,
            WORKS,
            "Write the configuration, complete and with plugins merged, and exit.",
            "",
        ),
    ),
    "Secure serving flags": (
        ("bind-address", Kind.STRING, WORKS, "Serve endpoints on this address.", "0.0.0.0"),  # noqa: S104 - upstream's
        (
            "cert-dir",
            Kind.STRING,
            WORKS,
            "Keep a certificate of our own making in this folder. Default: in memory.",
            "",
        ),
        ("disable-http2-serving", Kind.BOOL, WARNED, "HTTP/2 is not served anyway", ""),
        ("http2-max-streams-per-connection", Kind.INT, REFUSED, "HTTP/2 is not served", ""),
        ("permit-address-sharing", Kind.BOOL, WARNED, "the address is shared in any case", ""),
        ("permit-port-sharing", Kind.BOOL, WORKS, "Let several processes serve on the same port.", ""),
        ("secure-port", Kind.INT, WORKS, "Serve endpoints on this port over HTTPS; 0: serve none.", "10259"),
        (
            "tls-cert-file",
            Kind.FILE,
            WORKS,
            "Serve with this certificate, read again when it changes. Default: one of our own making.",
            "",
        ),
        (
            "tls-cipher-suites",
            Kind.STRINGS,
            WORKS,
            "Offer these cipher suites only, by their names in Go. TLS 1.3 has its own, and always does.",
            "",
        ),
        (
            "tls-curve-preferences",
            Kind.STRINGS,
            REFUSED,
            "its values number the curves of Go's TLS library, and Python's lets nobody choose several",
            "",
        ),
        ("tls-min-version", Kind.STRING, WORKS, "VersionTLS12 or VersionTLS13.", "VersionTLS12"),
        ("tls-private-key-file", Kind.FILE, WORKS, "The key of --tls-cert-file.", ""),
        (
            "tls-sni-cert-key",
            Kind.STRINGS,
            WORKS,
            "CERTIFICATE,KEY[:NAME,...]: serve this to who asks for a name (default: those in it). May be repeated.",
            "",
        ),
    ),
    "Authentication flags": (
        (
            "authentication-kubeconfig",
            Kind.FILE,
            WORKS,
            "Ask the API server of this kubeconfig whose a token is. Default: the scheduler's.",
            "",
        ),
        (
            "authentication-skip-lookup",
            Kind.BOOL,
            WORKS,
            "Do not ask the cluster which client certificates and front proxies to believe.",
            "false",
        ),
        (
            "authentication-token-webhook-cache-ttl",
            Kind.DURATION,
            WORKS,
            "How long it is remembered whose a token is.",
            "10s",
        ),
        (
            "authentication-tolerate-lookup-failure",
            Kind.BOOL,
            WORKS,
            "Serve also when the cluster does not say.",
            "true",
        ),
        (
            "client-ca-file",
            Kind.FILE,
            WORKS,
            "Believe client certificates of these authorities; read again when it changes. Default: the cluster's.",
            "",
        ),
        (
            "requestheader-allowed-names",
            Kind.STRINGS,
            WORKS,
            "Believe front proxies with these common names only.",
            "",
        ),
        (
            "requestheader-client-ca-file",
            Kind.FILE,
            WORKS,
            "Believe front proxies of these authorities; read again when it changes. Default: as the cluster says.",
            "",
        ),
        (
            "requestheader-extra-headers-prefix",
            Kind.STRINGS,
            WORKS,
            "Front proxies say more of users in headers that begin so.",
            "x-remote-extra-",
        ),
        (
            "requestheader-group-headers",
            Kind.STRINGS,
            WORKS,
            "Front proxies name a user's groups in these headers.",
            "x-remote-group",
        ),
        (
            "requestheader-uid-headers",
            Kind.STRINGS,
            WORKS,
            "Front proxies give a user's uid in the first of these headers that is there.",
            "",
        ),
        (
            "requestheader-username-headers",
            Kind.STRINGS,
            WORKS,
            "Front proxies name the user in the first of these headers that is there.",
            "x-remote-user",
        ),
    ),
    "Authorization flags": (
        (
            "authorization-always-allow-paths",
            Kind.STRINGS,
            WORKS,
            "Serve these paths to anybody; a trailing * stands for any rest.",
            "/healthz,/readyz,/livez",
        ),
        (
            "authorization-kubeconfig",
            Kind.FILE,
            WORKS,
            "Ask the API server of this kubeconfig who may see what. Default: the scheduler's.",
            "",
        ),
        (
            "authorization-webhook-cache-authorized-ttl",
            Kind.DURATION,
            WORKS,
            "How long it is remembered that somebody may see something.",
            "10s",
        ),
        (
            "authorization-webhook-cache-unauthorized-ttl",
            Kind.DURATION,
            WORKS,
            "How long it is remembered that somebody may not.",
            "10s",
        ),
    ),
    "Deprecated flags": (
        ("contention-profiling", Kind.BOOL, WARNED, NO_PROFILING, "true"),
        (
            "kube-api-burst",
            Kind.INT,
            WORKS,
            "Requests to the API server at once, before --kube-api-qps (50 if that is not set) limits them.",
            "",
        ),
        ("kube-api-content-type", Kind.STRING, WARNED, "JSON is what goes over the wire", ""),
        (
            "kube-api-qps",
            Kind.FLOAT,
            WORKS,
            "Requests to the API server a second. Without it and --kube-api-burst: no limit.",
            "",
        ),
        (
            "kubeconfig",
            Kind.FILE,
            WORKS,
            "Path to a kubeconfig, also beside --config. Default: KUBECONFIG, ~/.kube/config, or a service account.",
            "",
        ),
        (
            "pod-max-in-unschedulable-pods-duration",
            Kind.DURATION,
            WORKS,
            "Try a pod that nothing has helped again after so long.",
            "5m0s",
        ),
        ("profiling", Kind.BOOL, WARNED, NO_PROFILING, "true"),
    ),
    "Leader election flags": (
        ("leader-elect", Kind.BOOL, WORKS, "Decide only while holding a lease. Without --config: not.", "true"),
        ("leader-elect-lease-duration", Kind.DURATION, WORKS, "Take a lease that was not renewed for so long.", "15s"),
        (
            "leader-elect-renew-deadline",
            Kind.DURATION,
            WORKS,
            "Stop if it cannot be renewed for so long.",
            "10s",
        ),
        ("leader-elect-resource-lock", Kind.STRING, WORKS, "What is held: leases.", "leases"),
        ("leader-elect-resource-name", Kind.STRING, WORKS, "The name of the lease.", "kube-scheduler"),
        ("leader-elect-resource-namespace", Kind.STRING, WORKS, "The namespace of the lease.", "kube-system"),
        ("leader-elect-retry-period", Kind.DURATION, WORKS, "How often to renew the lease, or to try to get it.", "2s"),
    ),
    "Feature gate flags": (
        ("emulated-version", Kind.STRINGS, REFUSED, "Bayplan decides as Kubernetes 1.36 does, and as no other", ""),
        (
            "feature-gates",
            Kind.STRINGS,
            WORKS,
            "Features to switch, as in A=true,B=false. What cannot be switched here is refused with the reason.",
            "",
        ),
        (
            "min-compatibility-version",
            Kind.STRINGS,
            REFUSED,
            "Bayplan decides as Kubernetes 1.36 does, and as no other",
            "",
        ),
    ),
    "Metrics flags": (
        (
            "allow-metric-labels",
            Kind.STRINGS,
            WORKS,
            "METRIC,LABEL=VALUE,...: show these values of a label, and any other as 'unexpected'. May be repeated.",
            "",
        ),
        (
            "allow-metric-labels-manifest",
            Kind.FILE,
            WORKS,
            'The same from a YAML file: "METRIC,LABEL": "VALUE,..."',
            "",
        ),
        ("disabled-metrics", Kind.STRINGS, WORKS, "Do not show the metrics of these full names.", ""),
        (
            "show-hidden-metrics-for-version",
            Kind.STRING,
            WORKS,
            "The minor version before, whose metrics that are hidden now are shown: there are none.",
            "",
        ),
    ),
    "Logs flags": (
        ("log-flush-frequency", Kind.DURATION, WARNED, UNBUFFERED, "5s"),
        ("log-json-info-buffer-size", Kind.STRING, WARNED, UNBUFFERED, ""),
        ("log-json-split-stream", Kind.BOOL, REFUSED, "all of the log goes to standard error", ""),
        ("log-text-info-buffer-size", Kind.STRING, WARNED, UNBUFFERED, ""),
        ("log-text-split-stream", Kind.BOOL, REFUSED, "all of the log goes to standard error", ""),
        ("logging-format", Kind.STRING, WORKS, 'How log lines look: "text" or "json".', "text"),
        (
            "v",
            Kind.INT,
            WORKS,
            "How much to say: from 2 on what happens to every pod, from 4 on why, from 10 on scores. -v is 2, -vv 4.",
            "0",
        ),
        ("vmodule", Kind.STRING, WARNED, "its patterns name files of kube-scheduler's source", ""),
    ),
    "Global flags": (("version", Kind.STRING, WORKS, "Print the version and exit.", ""),),
}

FLAGS: tuple[Flag, ...] = tuple(
    Flag(name, group, kind, treatment, text, default)
    for group, flags in _GROUPS.items()
    for name, kind, treatment, text, default in flags
)
