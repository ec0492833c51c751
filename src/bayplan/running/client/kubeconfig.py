"""Loads kubeconfig files, or the service account of a pod, into a `ClusterAccess`.
lightkube has the types of the entries. This module merges several files, and adds tls-server-name, proxy-url,
impersonation and clear error messages. Mirrors client-go's tools/clientcmd.
"""

from __future__ import annotations

import base64
import os
import ssl
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import yaml
from lightkube.config import models

from bayplan.running.client.access import Anonymous, ClusterAccess, Credentials
from bayplan.running.client.credentials import (
    Exec,
    ExecPlugin,
    KubeconfigCredentials,
    TokenFile,
    WrittenCredential,
    basic,
    bearer,
)
from bayplan.running.client.errors import ConfigError, NoKubeconfigError
from bayplan.running.client.kubeconfig_tls import tls_context
from bayplan.running.client.proxies import proxy_for

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where a kubelet mounts the token of the account, and the certificate of the API server's authority."""
S = TypeVar("S", bound=msgspec.Struct)


def load_kubeconfig(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: str | Path = SERVICE_ACCOUNT,
) -> ClusterAccess:
    """The cluster and the user of `context` (default: the current context), as kubectl would find them.

    Reads `kubeconfig`, or else the files listed in KUBECONFIG, or else ~/.kube/config, or else the service account of
    the pod that this process runs in. Raises ConfigError, with a message of one line, for settings that can't be used.
    """
    if kubeconfig is not None:
        return _from_files([_expanded(kubeconfig)], context, environ)
    if listed := [_expanded(name) for name in environ.get("KUBECONFIG", "").split(os.pathsep) if name]:
        if existing := [path for path in listed if path.exists()]:
            return _from_files(existing, context, environ)
        raise NoKubeconfigError(f"none of the files in KUBECONFIG exists: {os.pathsep.join(map(str, listed))}")
    default = _expanded(environ.get("HOME", "~")) / ".kube" / "config"
    if default.exists():
        return _from_files([default], context, environ)
    if environ.get("KUBERNETES_SERVICE_HOST") and Path(service_account, "token").exists():
        return _in_cluster(Path(service_account), environ)
    raise NoKubeconfigError(
        f"no kubeconfig: pass a file, set KUBECONFIG, create {default}, or run in a pod with a service account"
    )


def _expanded(name: str | Path) -> Path:
    """The path with `~` expanded, or unchanged if the user has no home directory, such as a uid without a name."""
    path = Path(name)
    try:
        return path.expanduser()
    except RuntimeError:
        return path


def _from_files(paths: list[Path], context_name: str | None, environ: Mapping[str, str]) -> ClusterAccess:
    chosen = _Chosen.of(paths, context_name)
    cluster, user, source = chosen.cluster, chosen.user, chosen.source
    tls = tls_context(cluster, user, source)
    return ClusterAccess(
        server=cluster.server,
        credentials=_credentials(chosen),
        tls=tls,
        server_hostname=cluster.tls_server_name,
        proxy=_proxy(cluster, source, environ),
        headers=_impersonation(user),
        namespace=chosen.context.namespace or "default",
        source=source,
    )


def _in_cluster(account: Path, environ: Mapping[str, str]) -> ClusterAccess:
    source = f"service account of the pod in {account}"
    host, port = environ["KUBERNETES_SERVICE_HOST"], environ.get("KUBERNETES_SERVICE_PORT", "443")
    server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
    namespace = account / "namespace"
    return ClusterAccess(
        server=server,
        credentials=TokenFile(account / "token"),
        tls=tls_context(_Cluster(server=server, certificate_auth=str(account / "ca.crt")), _User(), source),
        proxy=proxy_for(server, environ),
        namespace=namespace.read_text().strip() if namespace.exists() else "default",
        source=source,
    )


class _Cluster(models.Cluster):
    tls_server_name: str | None = msgspec.field(name="tls-server-name", default=None)
    proxy_url: str | None = msgspec.field(name="proxy-url", default=None)


class _User(models.User):
    exec: Exec | None = None
    impersonate: str | None = msgspec.field(name="as", default=None)
    impersonate_uid: str | None = msgspec.field(name="as-uid", default=None)
    impersonate_groups: list[str] | None = msgspec.field(name="as-groups", default=None)
    impersonate_extra: dict[str, list[str]] | None = msgspec.field(name="as-user-extra", default=None)


@dataclass(frozen=True)
class _Chosen:
    """A context of some files, with its cluster and its user."""

    paths: list[Path]
    name: str
    context: models.Context
    cluster: _Cluster
    user: _User
    source: str

    @classmethod
    def of(cls, paths: list[Path], name: str | None) -> _Chosen:
        """The context of a name, or the current one. Raises ConfigError."""
        merged = _Merged()
        for path in paths:
            merged.add(path)
        where = ", ".join(map(str, paths))
        name = name or merged.current_context
        if not name:
            if not merged.contexts:
                raise ConfigError(f"{where}: no current-context is set, and no contexts are defined")
            raise ConfigError(f"{where}: no current-context is set; choose one of: {_known(merged.contexts)}")
        context = merged.get("context", merged.contexts, name, where, models.Context)
        source = f"context {name} of {where}"
        cluster = merged.get("cluster", merged.clusters, context.cluster, source, _Cluster)
        user = merged.get("user", merged.users, context.user, source, _User) if context.user else _User()
        return cls(paths, name, context, cluster, user, source)

    @property
    def whose(self) -> str:
        """The user, for messages."""
        return f"user {self.context.user}, {self.source}"

    def written(self) -> WrittenCredential | None:
        """The user's token or password; None if a token file comes before it. Raises ConfigError."""
        user, who = self.user, f"user {self.context.user}"
        if user.token_file:
            return None
        try:
            if user.token:
                return WrittenCredential(bearer(user.token), f"the token of {who}")
            if user.username or user.password:
                return WrittenCredential(basic(user.username or "", user.password or ""), f"the password of {who}")
        except ValueError:  # its message may have a part of the secret
            raise ConfigError(
                f"{self.whose}: the token or password has a character that can't be sent, such as a line break"
            ) from None
        return None

    def read_again(self) -> WrittenCredential:
        """The user's token or password as the files are now. Raises ConfigError.

        A credential is sent only to the server that it is for: the context must have the same user and server.
        """
        for path in self.paths:
            _check_regular(path)
        now = _Chosen.of(self.paths, self.name)
        if (now.context.user, now.cluster.server) != (self.context.user, self.cluster.server):
            raise ConfigError(f"{self.source}: the context has another user or server now, which a restart uses")
        written = now.written()
        if written is None:
            raise ConfigError(f"{self.whose}: the user has neither a token nor a password now")
        return written


def _check_regular(path: Path) -> None:
    """Raises ConfigError for a pipe or a terminal, which might have to be waited for without end."""
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the kubeconfig: {error.strerror or error}") from error
    if not stat.S_ISREG(mode):
        raise ConfigError(f"{path}: the kubeconfig is not a regular file, and cannot be read again")


class _Merged:
    """The merged entries of several files. The first entry of a name wins, and so does the first current context.

    Relative paths become absolute here, as they are relative to their file's directory.
    """

    def __init__(self) -> None:
        self.current_context = ""
        self.contexts: dict[str, Any] = {}
        self.clusters: dict[str, Any] = {}
        self.users: dict[str, Any] = {}

    def add(self, path: Path) -> None:
        document = _read(path)
        self.current_context = self.current_context or document.get("current-context") or ""
        for section, entry, known in (
            ("contexts", "context", self.contexts),
            ("clusters", "cluster", self.clusters),
            ("users", "user", self.users),
        ):
            items = document.get(section) or []
            if not isinstance(items, list):
                raise ConfigError(f"{path}: {section} must be a list, not {type(items).__name__}")
            for number, item in enumerate(items):
                if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                    raise ConfigError(f"{path}: {section}[{number}] must have a name and a {entry}")
                body = item.get(entry) or {}
                if not isinstance(body, dict):
                    raise ConfigError(f"{path}: the {entry} of {section}[{number}] must be a mapping")
                known.setdefault(item["name"], _with_absolute_paths(body, path.absolute().parent))

    def get(self, what: str, known: Mapping[str, Any], name: str, where: str, cls: type[S]) -> S:
        if name not in known:
            raise ConfigError(f"{where}: there is no {what} {name!r}; found: {_known(known)}")
        try:
            return msgspec.convert(known[name], cls)
        except msgspec.ValidationError as error:
            raise ConfigError(f"{where}: {what} {name!r}: {error}") from None


_MOST_BYTES, _MOST_PARTS = 16 * 2**20, 50_000
"""The bytes of a kubeconfig, and its lines and commas: those of a thousand clusters. YAML is parsed slowly."""


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES or content.count(b"\n") + content.count(b",") > _MOST_PARTS:
            raise ConfigError(f"{path}: the file is too large for a kubeconfig")
        document = yaml.safe_load(content)
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the kubeconfig: {error.strerror or error}") from error
    except yaml.MarkedYAMLError as error:  # its whole message quotes the file, and so maybe a token
        mark = error.problem_mark or error.context_mark
        at = f"{path}, line {mark.line + 1}" if mark else str(path)
        raise ConfigError(f"{at}: the kubeconfig is not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, TypeError, LookupError, RecursionError) as error:
        problem = " ".join(str(error).split())
        raise ConfigError(f"{path}: the kubeconfig is not YAML: {problem}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path}: a kubeconfig must be a mapping, not {type(document).__name__}")
    return document


_PATHS = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


def _with_absolute_paths(body: dict[str, Any], folder: Path) -> dict[str, Any]:
    absolute: dict[str, Any] = {
        key: str(folder / body[key]) for key in _PATHS if isinstance(body.get(key), str) and body[key]
    }
    plugin = body.get("exec")
    if isinstance(plugin, dict) and isinstance(command := plugin.get("command"), str) and os.sep in command:
        absolute["exec"] = plugin | {"command": str(folder / command)}
    return body | absolute


def _known(entries: Mapping[str, Any]) -> str:
    return ", ".join(sorted(entries)) or "none"


def _proxy(cluster: _Cluster, source: str, environ: Mapping[str, str]) -> str | None:
    proxy = cluster.proxy_url or proxy_for(cluster.server, environ)
    if proxy and not proxy.startswith(("http://", "https://")):
        raise ConfigError(f"{source}: the proxy {proxy!r} is not supported; HTTP and HTTPS proxies are")
    return proxy


def _credentials(chosen: _Chosen) -> Credentials:
    user, whose = chosen.user, chosen.whose
    if user.token_file:
        return TokenFile(user.token_file)
    if written := chosen.written():
        return KubeconfigCredentials(written, chosen.read_again)
    if user.exec is not None:
        return _exec_plugin(user.exec, chosen.cluster, whose)
    if user.auth_provider:
        raise ConfigError(
            f"{whose}: auth-provider {user.auth_provider.get('name')!r} is not supported; "
            "use an exec plugin (such as gke-gcloud-auth-plugin, kubelogin) or a token"
        )
    return Anonymous()


def _exec_plugin(plugin: Exec, cluster: _Cluster, whose: str) -> ExecPlugin:
    if plugin.apiVersion not in _EXEC_VERSIONS:
        raise ConfigError(f"{whose}: exec.apiVersion must be {' or '.join(_EXEC_VERSIONS)}, not {plugin.apiVersion!r}")
    if plugin.interactiveMode not in _INTERACTIVE_MODES:
        raise ConfigError(
            f"{whose}: exec.interactiveMode must be {', '.join(_INTERACTIVE_MODES)}, not {plugin.interactiveMode!r}"
        )

    def with_certificate(certificate: str, key: str) -> ssl.SSLContext | None:
        user = _User(
            client_cert_data=base64.b64encode(certificate.encode()).decode(),
            client_key_data=base64.b64encode(key.encode()).decode(),
        )
        return tls_context(cluster, user, f"{whose}, from the plugin {plugin.command}")

    return ExecPlugin(plugin, cluster=_cluster_info(cluster), with_certificate=with_certificate, where=whose)


_EXEC_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
_INTERACTIVE_MODES = ("Never", "IfAvailable", "Always")


def _cluster_info(cluster: _Cluster) -> dict[str, Any]:
    """The cluster information for exec plugins with provideClusterInfo."""
    info: dict[str, Any] = {"server": cluster.server}
    if cluster.tls_server_name:
        info["tls-server-name"] = cluster.tls_server_name
    if cluster.insecure:
        info["insecure-skip-tls-verify"] = True
    if cluster.certificate_auth_data:
        info["certificate-authority-data"] = cluster.certificate_auth_data
    elif cluster.certificate_auth:
        info["certificate-authority-data"] = base64.b64encode(Path(cluster.certificate_auth).read_bytes()).decode()
    if cluster.proxy_url:
        info["proxy-url"] = cluster.proxy_url
    return info


def _impersonation(user: _User) -> tuple[tuple[str, str], ...]:
    headers = []
    if user.impersonate:
        headers.append(("Impersonate-User", user.impersonate))
    if user.impersonate_uid:
        headers.append(("Impersonate-Uid", user.impersonate_uid))
    headers += [("Impersonate-Group", group) for group in user.impersonate_groups or ()]
    for key, values in (user.impersonate_extra or {}).items():
        headers += [(f"Impersonate-Extra-{key}", value) for value in values]
    return tuple(headers)
