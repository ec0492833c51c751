import base64
import os
import ssl

import pytest
import yaml
from aiohttp import web
from tests.support.certificates import Authority
from tests.support.tables import cases

from bayplan.client import ApiError, ConfigError, HttpClient, TransportError, connect, load_kubeconfig
from bayplan.core.api.kinds import POD

AUTHORITY = Authority()
CLIENT = AUTHORITY.client("me", "system:masters")
NO_KUBECONFIG = {"HOME": "/nowhere"}


def write(path, *, server="https://127.0.0.1:6443", cluster=None, user=None, context=None, **top):
    document = {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "c", "user": "u", **(context or {})}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(document | top))
    return path


def data(pem: bytes) -> str:
    return base64.b64encode(pem).decode()


async def headers(access):
    return await access.credentials.headers()


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        pytest.param({}, {}, id="empty user"),
        pytest.param({"token": "t"}, {"Authorization": "Bearer t"}, id="token"),
        pytest.param({"tokenFile": "token"}, {"Authorization": "Bearer from-file"}, id="token file"),
        pytest.param({"token": "t", "tokenFile": "token"}, {"Authorization": "Bearer from-file"}, id="both"),
        pytest.param({"username": "u", "password": "p"}, {"Authorization": "Basic dTpw"}, id="password"),
        pytest.param({"token": "t", "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}},
                     {"Authorization": "Bearer t"}, id="token before plugin"),
    ],
)  # fmt: skip
async def test_credentials_of_a_user(tmp_path, user, expected):
    (tmp_path / "token").write_text("from-file\n")
    access = load_kubeconfig(write(tmp_path / "config", user=user))
    assert await headers(access) == expected


def test_other_settings_of_a_context(tmp_path):
    path = write(
        tmp_path / "config",
        cluster={"tls-server-name": "api.internal", "proxy-url": "http://proxy:3128"},
        user={"as": "joe", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"scopes": ["x"]}},
        context={"namespace": "shop"},
    )
    access = load_kubeconfig(path)
    assert (access.server, access.namespace) == ("https://127.0.0.1:6443", "shop")
    assert (access.server_hostname, access.proxy) == ("api.internal", "http://proxy:3128")
    assert access.source == f"context dev of {path}"
    assert access.headers == (
        ("Impersonate-User", "joe"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-scopes", "x"),
    )


async def test_several_files_are_merged_as_kubectl_does(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    (one / "token").write_text("one")
    (two / "token").write_text("two")
    write(one / "config", server="https://one:1", user={"tokenFile": "token"})
    write(
        two / "config",
        server="https://two:2",
        user={"tokenFile": "token"},
        **{
            "current-context": "other",
            "contexts": [{"name": "other", "context": {"cluster": "c", "user": "v"}}],
            "users": [{"name": "v", "user": {"tokenFile": "token"}}],
        },
    )
    environ = NO_KUBECONFIG | {
        "KUBECONFIG": os.pathsep.join([str(one / "config"), str(tmp_path / "missing"), "", str(two / "config")])
    }
    first = load_kubeconfig(environ=environ)
    assert (first.server, await headers(first)) == ("https://one:1", {"Authorization": "Bearer one"})
    other = load_kubeconfig(context="other", environ=environ)
    assert (other.server, await headers(other)) == ("https://one:1", {"Authorization": "Bearer two"})


def test_lookup_order_of_kubeconfigs(tmp_path):
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config", server="https://home:1")
    write(tmp_path / "env", server="https://env:1")
    write(tmp_path / "flag", server="https://flag:1")
    environ = {"HOME": str(tmp_path), "KUBECONFIG": str(tmp_path / "env")}
    assert load_kubeconfig(tmp_path / "flag", environ=environ).server == "https://flag:1"
    assert load_kubeconfig(environ=environ).server == "https://env:1"
    assert load_kubeconfig(environ={"HOME": str(tmp_path)}).server == "https://home:1"


def nameless(monkeypatch):
    """Run as a uid without a name, and so without a home directory."""

    def unknown(uid):
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)


def test_user_without_a_home_directory_has_no_kubeconfig(tmp_path, monkeypatch):
    nameless(monkeypatch)
    with pytest.raises(ConfigError, match=r"no kubeconfig: .* create ~/\.kube/config"):
        load_kubeconfig(environ={})
    (tmp_path / "token").write_text("pod-token")
    (tmp_path / "ca.crt").write_bytes(Authority().certificate)
    environ = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert load_kubeconfig(environ=environ, service_account=tmp_path).server == "https://10.0.0.1:443"


@cases("given, environ", {"flag": ("~/config", {}), "KUBECONFIG": (None, {"KUBECONFIG": "~/config"})})
def test_kubeconfig_in_an_unknown_home_directory_is_missing(given, environ, monkeypatch):
    nameless(monkeypatch)
    with pytest.raises(ConfigError, match="~/config"):
        load_kubeconfig(given, environ=environ)


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
async def test_service_account_of_a_pod(tmp_path, host, server):
    (tmp_path / "token").write_text("pod-token")
    (tmp_path / "namespace").write_text("kube-system")
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.certificate)
    environ = NO_KUBECONFIG | {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    access = load_kubeconfig(environ=environ, service_account=tmp_path)
    assert (access.server, access.namespace) == (server, "kube-system")
    assert await headers(access) == {"Authorization": "Bearer pod-token"}
    assert access.tls.verify_mode == ssl.CERT_REQUIRED


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "x"}


@cases(
    "change, message",
    {
        "no current context": ({"current-context": ""}, "no current-context is set; choose one of: dev"),
        "no such context": ({"current-context": "x"}, "there is no context 'x'; found: dev"),
        "no such cluster": ({"clusters": []}, "context dev of .*: there is no cluster 'c'; found: none"),
        "no such user": ({"users": None}, "there is no user 'u'; found: none"),
        "a number": ({"context": {"cluster": 7}}, "context 'dev': Expected `str`, got `int`"),
        "no list": ({"users": 7}, "users must be a list, not int"),
        "no name": ({"users": [{"user": {}}]}, r"users\[0\] must have a name and a user"),
        "no mapping": ({"users": [{"name": "u", "user": 7}]}, "the user of users.0. must be a mapping"),
        "no URL": ({"server": "10.0.0.1:6443"}, "the server must be a URL such as"),
        "no host": ({"server": "https://a..b"}, "the server must be a URL such as"),
        "no port": ({"server": "https://a:99999"}, "the server must be a URL such as"),
        "SOCKS": ({"cluster": {"proxy-url": "socks5://x"}}, "HTTP and HTTPS proxies are"),
        "no CA": ({"cluster": {"certificate-authority": "none.crt"}}, "cannot read .*none.crt: No such"),
        "not base64": ({"cluster": {"certificate-authority-data": "%"}}, "-data is not base64"),
        "not PEM": ({"cluster": {"certificate-authority-data": data(b"x")}}, "not valid PEM"),
        "insecure with CA": (
            {"cluster": {"certificate-authority-data": "eA==", "insecure-skip-tls-verify": True}},
            "exclude each other",
        ),
        "certificate without key": ({"user": {"client-certificate-data": "eA=="}}, "one is missing"),
        "another key": (
            {
                "user": {
                    "client-certificate-data": data(CLIENT.certificate),
                    "client-key-data": data(AUTHORITY.client("x").key),
                }
            },
            "they don't match",
        ),
        "provider": ({"user": {"auth-provider": {"name": "gcp"}}}, "auth-provider 'gcp' is not supported"),
        "exec version": (
            {"user": {"exec": EXEC | {"apiVersion": "v1alpha1"}}},
            "must be client.authentication.k8s.io/v1 or",
        ),
        "exec without version": ({"user": {"exec": {"command": "x"}}}, "missing required field `apiVersion`"),
        "exec mode": ({"user": {"exec": EXEC | {"interactiveMode": "?"}}}, "interactiveMode must be"),
        "exec env": ({"user": {"exec": EXEC | {"env": [{"name": "x"}]}}}, "missing required field `value`"),
    },
)
def test_invalid_setting_is_a_config_error_of_one_line(tmp_path, change, message):
    path = write(tmp_path / "config", **change)
    with pytest.raises(ConfigError, match=message) as caught:
        load_kubeconfig(path, environ=NO_KUBECONFIG)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@cases(
    "content, message",
    {
        "not YAML": (b"{", "config, line 1: the kubeconfig is not YAML: expected the node content"),
        "not text": (b"\xff\xfe\x00", "is not YAML"),
        "a list": (b"- a", "must be a mapping, not list"),
        "empty": (b"", "no current-context is set, and no contexts are defined"),
    },
)
def test_invalid_file_is_a_config_error(tmp_path, content, message):
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        load_kubeconfig(path)


def test_missing_file_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match="missing: cannot read the kubeconfig: No such file"):
        load_kubeconfig(tmp_path / "missing")
    with pytest.raises(ConfigError, match="cannot read the kubeconfig: Is a directory"):
        load_kubeconfig(tmp_path)
    with pytest.raises(ConfigError, match="none of the files in KUBECONFIG exists: /a:/b"):
        load_kubeconfig(environ=NO_KUBECONFIG | {"KUBECONFIG": "/a:/b"})
    with pytest.raises(ConfigError, match=r"no kubeconfig: pass a file, set KUBECONFIG, create /nowhere/\.kube/config"):
        load_kubeconfig(environ=NO_KUBECONFIG)


@cases(
    "environ, server, proxy",
    {
        "https": ({"HTTPS_PROXY": "http://p:1"}, "https://api:6443", "http://p:1"),
        "lower case, no scheme": ({"https_proxy": "p:1"}, "https://api:6443", "http://p:1"),
        "another scheme": ({"HTTP_PROXY": "http://p:1"}, "https://api:6443", None),
        "loopback": ({"HTTPS_PROXY": "http://p:1"}, "https://127.0.0.1:6443", None),
        "domain": ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "a, .corp"}, "https://api.corp", None),
        "only below": ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".corp"}, "https://corp", "http://p:1"),
        "network": ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "https://10.96.0.1", None),
        "not in it": ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "https://11.0.0.1", "http://p:1"),
        "port": ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "api:443"}, "https://api:6443", "http://p:1"),
        "all": ({"HTTPS_PROXY": "http://p:1", "NO_PROXY": "*"}, "https://api", None),
    },
)
def test_proxies_of_the_environment(tmp_path, environ, server, proxy):
    path = write(tmp_path / "config", server=server)
    assert load_kubeconfig(path, environ=environ).proxy == proxy


@pytest.fixture
async def tls_server():
    """A server with a certificate for `api.internal` and 127.0.0.1 that returns the user of the client certificate."""
    pair = AUTHORITY.server("api.internal", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=AUTHORITY.certificate.decode())

    async def handle(request):
        subject = (request.transport.get_extra_info("peercert") or {}).get("subject", ())
        names = [value for part in subject for key, value in part if key == "commonName"]
        if not names:
            return web.json_response({"code": 401, "reason": "Unauthorized", "message": "who?"}, status=401)
        return web.json_response({"metadata": {"name": names[0]}})

    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    yield lambda path: load_pair(context, pair, path), runner, context
    await runner.cleanup()


def load_pair(context, pair, path):
    (path / "server.pem").write_bytes(pair.certificate + pair.key)
    context.load_cert_chain(path / "server.pem")


@pytest.fixture
async def tls_url(tls_server, tmp_path):
    load, runner, context = tls_server
    load(tmp_path)
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    return f"https://127.0.0.1:{runner.addresses[0][1]}"


TRUST = {"certificate-authority-data": data(AUTHORITY.certificate)}
CERTIFICATE = {"client-certificate-data": data(CLIENT.certificate), "client-key-data": data(CLIENT.key)}


@cases(
    "cluster, user",
    {
        "inline": (TRUST, CERTIFICATE),
        "in files next to the kubeconfig": (
            {"certificate-authority": "ca.crt"},
            {"client-certificate": "me.crt", "client-key": "me.key"},
        ),
        "data before file": ({"certificate-authority": "none.crt"} | TRUST, CERTIFICATE),
        "insecure": ({"insecure-skip-tls-verify": True}, CERTIFICATE),
        "server name": (TRUST | {"tls-server-name": "api.internal"}, CERTIFICATE),
    },
)
async def test_trusted_server_certificate(tmp_path, tls_url, cluster, user):
    (tmp_path / "ca.crt").write_bytes(AUTHORITY.certificate)
    (tmp_path / "me.crt").write_bytes(CLIENT.certificate)
    (tmp_path / "me.key").write_bytes(CLIENT.key)
    async with connect(write(tmp_path / "config", server=tls_url, cluster=cluster, user=user)) as client:
        assert (await client.get(POD, "p")).metadata.name == "me"


@cases(
    "cluster, message",
    {
        "unknown": ({}, r"certificate is not trusted: .+ \(context dev of"),
        "another CA": ({"certificate-authority-data": data(Authority().certificate)}, "certificate is not trusted"),
        "another name": (TRUST | {"tls-server-name": "else"}, "not trusted: .*ostname mismatch.*'else'"),
    },
)
async def test_untrusted_server_certificate_is_a_transport_error(tmp_path, tls_url, cluster, message):
    path = write(tmp_path / "config", server=tls_url, cluster=cluster, user=CERTIFICATE)
    async with await connect(path, retries=0) as client:
        with pytest.raises(TransportError, match=message) as caught:
            await client.get(POD, "p")
    assert not caught.value.sent


async def test_refused_user_is_named_in_the_error(tmp_path, tls_url):
    path = write(tmp_path / "config", server=tls_url, cluster=TRUST, user={"token": "secret"})
    async with connect(path) as client:
        with pytest.raises(
            ApiError, match=r"401 Unauthorized: who\? \(sent: the token of user u; context dev of"
        ) as caught:
            await client.get(POD, "p")
    assert "secret" not in str(caught.value)


async def test_https_to_a_plain_server_is_a_transport_error(server):
    server.respond({})
    async with HttpClient(server.url.replace("http:", "https:"), retries=0) as client:
        with pytest.raises(TransportError, match=r"the TLS connection failed|closed the connection") as caught:
            await client.get(POD, "p")
    assert not caught.value.sent


PLUGIN = """#!/usr/bin/env python3
import json, pathlib
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
    "status": {{"clientCertificateData": pathlib.Path({certificate!r}).read_text(),
                "clientKeyData": pathlib.Path({key!r}).read_text()}}}}))
"""


async def test_plugin_renews_a_refused_client_certificate(tmp_path, tls_url):
    certificate, key, plugin = tmp_path / "me.crt", tmp_path / "me.key", tmp_path / "plugin"
    other = Authority().client("me")
    certificate.write_bytes(other.certificate)
    key.write_bytes(other.key)
    plugin.write_text(PLUGIN.format(certificate=str(certificate), key=str(key)))
    plugin.chmod(0o755)
    path = write(tmp_path / "config", server=tls_url, cluster=TRUST, user={"exec": EXEC | {"command": "./plugin"}})
    async with connect(path, retries=0) as client:
        with pytest.raises(TransportError):
            await client.get(POD, "p")
        certificate.write_bytes(CLIENT.certificate)
        key.write_bytes(CLIENT.key)
        assert await client.access.credentials.refresh({})
        assert (await client.get(POD, "p")).metadata.name == "me"


async def lines_of(caplog, access, refused, times=1):
    """The log of refreshes that find nothing."""
    caplog.clear()
    for _ in range(times):
        assert not await access.credentials.refresh(refused)
    return [each.getMessage() for each in caplog.records]


@cases(
    "old, new, authorization, description",
    {
        "token": ({"token": "old"}, {"token": "new"}, "Bearer new", "token"),
        "password": (
            {"username": "u", "password": "old"},
            {"username": "u", "password": "p"},
            "Basic dTpw",
            "password",
        ),
        "token for a password": ({"username": "u", "password": "old"}, {"token": "new"}, "Bearer new", "token"),
    },
)
async def test_refused_credential_of_a_kubeconfig_is_read_again(tmp_path, caplog, old, new, authorization, description):
    path = tmp_path / "config"
    access = load_kubeconfig(write(path, user=old))
    refused = await headers(access)
    assert await lines_of(caplog, access, refused) == []
    write(path, user=new)
    assert await headers(access) == refused
    assert await access.credentials.refresh(refused)
    assert await headers(access) == {"Authorization": authorization}
    assert str(access.credentials) == f"the {description} of user u"


async def test_requests_and_watches_are_sent_again_with_the_new_token(tmp_path, server):
    path = tmp_path / "config"
    first = write(path, server=server.url, user={"token": "old", "as": "joe"})

    async def refuse(_):
        number = len(server.requests)
        write(path, server=server.url, user={"token": f"new-{number}", "as": "jane"}, **{"current-context": "other"})
        return web.json_response({"code": 401}, status=401)

    server.answers.append(refuse)
    server.respond({"metadata": {"name": "p"}})
    server.answers.append(refuse)
    server.stream()
    async with connect(first) as client:
        await client.get(POD, "p")
        assert [event async for event in client.watch(POD, resource_version="1")] == []
    sent = [(headers["Authorization"], headers["Impersonate-User"]) for _, _, headers, _ in server.requests]
    assert sent == [("Bearer old", "joe"), *[("Bearer new-1", "joe")] * 2, ("Bearer new-3", "joe")]


async def test_other_users_and_the_current_context_do_not_matter(tmp_path, caplog):
    users = [{"name": name, "user": {"token": name}} for name in ("u", "v")]
    contexts = [{"name": name, "context": {"cluster": "c", "user": user}} for name, user in (("dev", "u"), ("b", "v"))]
    path = write(tmp_path / "config", users=users, contexts=contexts)
    access = load_kubeconfig(path)
    users[1]["user"]["token"] = "other"
    write(path, users=users, contexts=contexts, **{"current-context": "b"})
    assert await lines_of(caplog, access, {"Authorization": "Bearer u"}) == []
    assert await headers(access) == {"Authorization": "Bearer u"}


def replaced(**fields):
    return lambda path: write(path, **{"user": {"token": "secret-new"}, **fields})


def as_pipe(path):
    path.unlink()
    os.mkfifo(path)


@cases(
    "change, why",
    {
        "missing": (os.unlink, "config: cannot read the kubeconfig: No such file or directory"),
        "pipe": (as_pipe, "config: the kubeconfig is not a regular file, and cannot be read again"),
        "half": (
            lambda path: path.write_text("users:\n- user: {token: 'secret-n"),
            "config, line 2: the kubeconfig is not YAML: ",
        ),
        "empty": (lambda path: path.write_text(""), "config: there is no context 'dev'; found: none"),
        "another user": (
            replaced(context={"user": "v"}, users=[{"name": "v", "user": {"token": "secret-new"}}]),
            "config: the context has another user or server now, which a restart uses",
        ),
        "another server": (
            replaced(server="https://else"),
            "config: the context has another user or server now, which a restart uses",
        ),
        "no credential": (replaced(user={}), "config: the user has neither a token nor a password now"),
        "token file": (
            replaced(user={"token": "secret-new", "tokenFile": "t"}),
            "config: the user has neither a token nor a password now",
        ),
        "line break": (
            replaced(user={"token": "secret-new\n"}),
            "config: the token or password has a character that can't be sent, such as a line break",
        ),
    },
)
async def test_kubeconfig_that_cannot_be_read_again_leaves_the_old_token(tmp_path, caplog, change, why):
    path = tmp_path / "config"
    access = load_kubeconfig(write(path, user={"token": "secret"}))
    refused = await headers(access)
    change(path)
    (line,) = await lines_of(caplog, access, refused, times=3)
    assert line.startswith("still using the token of user u as it was: ")
    assert why in line
    assert "\n" not in line
    assert "secret" not in line
    assert await headers(access) == refused
    path.unlink(missing_ok=True)
    write(path, user={"token": "newest"})
    assert await access.credentials.refresh(refused)
    path.unlink()
    assert len(await lines_of(caplog, access, await headers(access))) == 1, "a new problem is named again"
