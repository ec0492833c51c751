"""A real control plane for tests: etcd and kube-apiserver on loopback, with TLS and RBAC, stopped after the test.

The binaries come from the directory in KUBEBUILDER_ASSETS, as in envtest.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tests.support.certificates import Authority
from tests.support.waiting import until

from bayplan.client import ApiError, HttpClient, TransportError, load_kubeconfig
from bayplan.core.api.kinds import SERVICE_ACCOUNT

ASSETS = "KUBEBUILDER_ASSETS"
SCHEDULER_ROLES = ("system:kube-scheduler", "system:volume-scheduler")
"""The cluster roles of a scheduler, which every kube-apiserver creates."""

_HOST = "127.0.0.1"
_POLL = 0.05
_STOP_TIMEOUT = 10.0
_TOKEN_SECONDS = 24 * 3600
_RBAC = "/apis/rbac.authorization.k8s.io/v1"


class ControlPlaneError(Exception):
    """The control plane is not available: binaries are missing or don't start. One line, with the end of the log."""


@dataclass(frozen=True, slots=True)
class Assets:
    """The binaries."""

    etcd: Path
    api_server: Path

    @classmethod
    def find(cls, environ: Mapping[str, str] = os.environ) -> Assets:
        """The binaries in the directory KUBEBUILDER_ASSETS. Raises ControlPlaneError if one is missing."""
        named = environ.get(ASSETS)
        if not named:
            raise ControlPlaneError(f"{ASSETS} is not set: it names a folder with etcd and kube-apiserver")
        folder = Path(named).expanduser()
        if not folder.is_dir():
            raise ControlPlaneError(f"{ASSETS} names {folder}, which is not a folder")
        binaries = [folder / name for name in ("etcd", "kube-apiserver")]
        for binary in binaries:
            if not os.access(binary, os.X_OK) or not binary.is_file():
                raise ControlPlaneError(f"{ASSETS} names {folder}, in which there is no program {binary.name}")
        return cls(*binaries)


class ControlPlane:
    """etcd and kube-apiserver, running within `async with`.

    There is no controller manager, no scheduler and no kubelet: new nodes carry the not-ready taint, and namespaces are
    never removed. `url` is the API server's, `admin` a kubeconfig file of a cluster administrator. It belongs to no
    event loop: tests with a loop each may share it.
    """

    def __init__(
        self, assets: Assets | None = None, *, api_server_flags: Sequence[str] = (), start_timeout: float = 60.0
    ) -> None:
        self._assets = assets or Assets.find()
        self._flags = api_server_flags
        self._start_timeout = start_timeout
        self._authority = Authority()
        self._etcd: _Process | None = None
        self._api_server: _Process | None = None

    async def __aenter__(self) -> Self:
        self.folder = Path(tempfile.mkdtemp(prefix="bayplan-control-plane-"))
        self._etcd_url, self._port = f"http://{_HOST}:{free_port()}", free_port()
        self.url = f"https://{_HOST}:{self._port}"
        self.admin = self.user("admin", group="system:masters")
        try:
            self._write_secrets()
            self._start_etcd()
            await self.start_api_server()
        except BaseException:
            self._stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop()

    async def start_api_server(self) -> None:
        """Start the API server and wait until it is ready; after `stop_api_server` again, where it was before."""
        self._api_server = _Process(
            self.folder / "kube-apiserver.log",
            self._assets.api_server,
            f"--etcd-servers={self._etcd_url}",
            f"--bind-address={_HOST}",
            f"--secure-port={self._port}",
            f"--cert-dir={self.folder}",
            f"--tls-cert-file={self.folder / 'server.crt'}",
            f"--tls-private-key-file={self.folder / 'server.key'}",
            f"--client-ca-file={self.folder / 'ca.crt'}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'service-account.key'}",
            f"--service-account-signing-key-file={self.folder / 'service-account.key'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            # No controller creates the service accounts and tokens that the admission plugin would wait for.
            "--disable-admission-plugins=ServiceAccount",
            # Only a loopback address could be the endpoint of the service `kubernetes`.
            "--endpoint-reconciler-type=none",
            "--shutdown-delay-duration=0s",
            *self._flags,
        )
        await self._wait_until_ready(self._api_server)

    def stop_api_server(self, *, kill: bool = False) -> None:
        """Stop the API server; with `kill`, at once and without closing connections. Its data stays in etcd."""
        if self._api_server is not None:
            self._api_server.stop(signal.SIGKILL if kill else signal.SIGTERM)
            self._api_server = None

    def user(self, name: str, *, group: str = "users") -> Path:
        """A kubeconfig file of a user with a client certificate, subject to RBAC."""
        pair = self._authority.client(name, group)
        credentials = {"client-certificate-data": _base64(pair.certificate), "client-key-data": _base64(pair.key)}
        return self._write_kubeconfig(name, credentials)

    async def service_account(
        self,
        name: str,
        namespace: str = "kube-system",
        *,
        cluster_roles: Sequence[str] = SCHEDULER_ROLES,
        rules: Sequence[Mapping[str, Sequence[str]]] = (),
    ) -> Path:
        """A kubeconfig file of a new service account with these cluster roles and, beyond them, `rules`.

        `rules` are those of a ClusterRole. The file holds a token, which, unlike a certificate, also passes a proxy.
        """
        subjects = [{"kind": "ServiceAccount", "name": name, "namespace": namespace}]
        async with HttpClient(load_kubeconfig(self.admin)) as client:
            if rules:
                await _post(client, f"{_RBAC}/clusterroles", {"metadata": {"name": name}, "rules": rules})
            for role in (*cluster_roles, *([name] if rules else [])):
                binding = {
                    "metadata": {"name": f"{name}:{role}"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                    "subjects": subjects,
                }
                await _post(client, f"{_RBAC}/clusterrolebindings", binding)
            await client.create(SERVICE_ACCOUNT, {"metadata": {"name": name, "namespace": namespace}})
        return await self.account_kubeconfig(name, namespace)

    async def account_kubeconfig(self, name: str, namespace: str) -> Path:
        """A kubeconfig file with a new token of an existing service account."""
        async with HttpClient(load_kubeconfig(self.admin)) as client:
            path = SERVICE_ACCOUNT.path(namespace, name, "token")
            answer = await _post(client, path, {"spec": {"expirationSeconds": _TOKEN_SECONDS}})
        return self._write_kubeconfig(name, {"token": answer["status"]["token"]})

    @property
    def running(self) -> list[str]:
        """The names of the servers that are running."""
        return [process.name for process in (self._etcd, self._api_server) if process is not None and process.alive]

    def _write_secrets(self) -> None:
        server = self._authority.server("localhost", _HOST)
        for name, content in {
            "ca.crt": self._authority.certificate,
            "server.crt": server.certificate,
            "server.key": server.key,
            "service-account.key": self._authority.client("service-accounts").key,
        }.items():
            (self.folder / name).write_bytes(content)

    def _start_etcd(self) -> None:
        peers = f"http://{_HOST}:{free_port()}"
        self._etcd = _Process(
            self.folder / "etcd.log",
            self._assets.etcd,
            "--name=default",
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            "--log-level=error",
        )

    async def _wait_until_ready(self, api_server: _Process) -> None:
        answer = "it was never asked"

        async def ready() -> bool:
            nonlocal answer
            for process in filter(None, (self._etcd, api_server)):
                process.check()
            try:
                await client.request("GET", "/readyz")
            except (ApiError, TransportError) as error:
                answer = str(error)
                return False
            return True

        async with HttpClient(load_kubeconfig(self.admin), retries=0, request_timeout=5) as client:
            try:
                await until(ready, within=self._start_timeout, step=_POLL)
            except TimeoutError:
                late = f"kube-apiserver is not ready after {self._start_timeout:g} s: {answer}"
                raise ControlPlaneError(late) from None

    def _write_kubeconfig(self, user: str, credentials: Mapping[str, str]) -> Path:
        cluster = {"server": self.url, "certificate-authority-data": _base64(self._authority.certificate)}
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        path = self.folder / f"{user}.kubeconfig"
        path.write_text(json.dumps(document, indent=2))
        path.chmod(0o600)
        return path

    def _stop(self) -> None:
        # The data is deleted as well, so a graceful shutdown is not needed.
        self.stop_api_server(kill=True)
        if self._etcd is not None:
            self._etcd.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class _Process:
    """A server process and its log. It has a session of its own, so that a keyboard interrupt reaches the test only."""

    def __init__(self, log: Path, *command: str | Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*_with_us(), *command], stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    @property
    def name(self) -> str:
        """The program's name."""
        return self._log.stem

    @property
    def alive(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def check(self) -> None:
        """Raise ControlPlaneError if the process has ended."""
        status = self._process.poll()
        if status is not None:
            end = self._log.read_text(errors="replace").strip().splitlines()[-1:]
            raise ControlPlaneError(f"{self.name} ended with status {status}: {''.join(end) or 'no output'}")

    def stop(self, how: signal.Signals) -> None:
        """Terminate the process, and kill it if that takes too long."""
        self._process.send_signal(how)
        try:
            self._process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _with_us() -> list[str]:
    """A hook that makes a program end with this process, even if that is killed (Linux only)."""
    found = shutil.which("setpriv")
    return [found, "--pdeathsig", "KILL"] if found else []


async def _post(client: HttpClient, path: str, document: Mapping[str, Any]) -> Any:
    return json.loads(await client.request("POST", path, body=json.dumps(document).encode()))


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def free_port() -> int:
    """A port that was free a moment ago. The servers accept no open socket and don't report a port they chose."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port
