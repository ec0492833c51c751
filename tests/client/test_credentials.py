import asyncio
import json
import logging

import pytest
from tests.support.tables import cases

from bayplan.client import ConfigError
from bayplan.running.client import credentials as credentials_module
from bayplan.running.client.credentials import (
    TOKEN_LIFETIME,
    Exec,
    ExecPlugin,
    KubeconfigCredentials,
    TokenFile,
    WrittenCredential,
)

V1 = "client.authentication.k8s.io/v1"
WHERE = "user u, context dev of config"


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


async def test_token_file_is_read_again_every_minute_and_when_refused(tmp_path, caplog):
    path, clock = tmp_path / "token", Clock()
    path.write_text("one\n")
    tokens = TokenFile(path, clock=clock)
    assert await tokens.headers() == bearer("one")
    path.write_text("two")
    assert await tokens.headers() == bearer("one")
    clock.now += TOKEN_LIFETIME
    assert await tokens.headers() == bearer("two")
    assert not await tokens.refresh(bearer("two"))
    path.write_text("three")
    assert await tokens.refresh(bearer("two"))
    assert await tokens.headers() == bearer("three")
    path.unlink()
    clock.now += TOKEN_LIFETIME
    with caplog.at_level(logging.WARNING):
        assert await tokens.headers() == bearer("three")
    assert "still using the last token" in caplog.text


@cases(
    "content, message",
    {
        "missing": (None, "cannot read the token: No such file"),
        "empty": (b" \n", "the token file is empty"),
        "no text": (b"\xff", "cannot read the token"),
    },
)
async def test_token_file_without_a_token_is_an_error(tmp_path, content, message):
    if content is not None:
        (tmp_path / "token").write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        await TokenFile(tmp_path / "token").headers()


async def test_kubeconfig_is_read_again_once_for_all_refused_requests():
    readings = []

    def read_again():
        readings.append(1)
        return WrittenCredential("Bearer new", "the token")

    credentials = KubeconfigCredentials(WrittenCredential("Bearer old", "the token"), read_again)
    assert all(await asyncio.gather(*[credentials.refresh(bearer("old")) for _ in range(3)]))
    assert await credentials.refresh(bearer("old"))
    assert len(readings) == 1
    assert not any(await asyncio.gather(*[credentials.refresh(bearer("new")) for _ in range(3)]))
    assert len(readings) == 2


@pytest.fixture
def plugin(tmp_path):
    """Makes a plugin from a shell script. `runs` is how often it ran, `exec_infos` its KUBERNETES_EXEC_INFO."""

    class Made:
        clock = Clock()

        def __call__(self, script, *, version=V1, **options):
            path = tmp_path / "plugin"
            log = f'echo "$KUBERNETES_EXEC_INFO" >> {tmp_path}/runs\n'
            path.write_text(f"#!/bin/sh\n{log}{script}\n")
            path.chmod(0o755)
            return ExecPlugin(
                Exec(apiVersion=version, command=str(path), **options),
                cluster={"server": "https://s"},
                with_certificate=lambda certificate, key: (certificate, key),
                where=WHERE,
                clock=self.clock,
            )

        @property
        def exec_infos(self):
            return [json.loads(line) for line in (tmp_path / "runs").read_text().splitlines()]

    return Made()


def prints(status, *, version=V1, kind="ExecCredential"):
    return f"echo '{json.dumps({'apiVersion': version, 'kind': kind, 'status': status})}'"


@pytest.mark.parametrize("version", [V1, "client.authentication.k8s.io/v1beta1"])
async def test_plugin_runs_once_with_the_cluster_info(plugin, version):
    made = plugin(prints({"token": "t"}, version=version), version=version, provideClusterInfo=True)
    both = await asyncio.gather(made.headers(), made.headers())
    assert both == [bearer("t")] * 2
    spec = {"interactive": False, "cluster": {"server": "https://s"}}
    assert plugin.exec_infos == [{"kind": "ExecCredential", "apiVersion": version, "spec": spec}]


async def test_plugin_gets_its_arguments_and_environment(plugin):
    script = """echo '{"apiVersion":"'$VERSION'","kind":"ExecCredential","status":{"token":"'$1$2'"}}'"""
    made = plugin(script, args=["a", "b"], env=[credentials_module.models.NameValue("VERSION", V1)])
    assert await made.headers() == bearer("ab")


async def test_plugin_runs_again_when_its_credentials_expire(plugin):
    made = plugin(prints({"token": "t", "expirationTimestamp": "1970-01-01T00:30:00Z"}))
    await made.headers()
    plugin.clock.now = 1799.0
    await made.headers()
    assert len(plugin.exec_infos) == 1
    plugin.clock.now = 1800.0
    await made.headers()
    assert len(plugin.exec_infos) == 2


async def test_expiry_without_a_zone_is_in_utc(plugin):
    made = plugin(prints({"token": "t", "expirationTimestamp": "0001-01-01T00:00:00"}))
    for runs in (1, 2):
        assert await made.headers() == bearer("t")
        assert len(plugin.exec_infos) == runs


async def test_plugin_runs_again_when_its_credentials_are_refused(plugin, tmp_path):
    counted = tmp_path / "runs"
    script = f"""echo '{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{"token":"'$(wc -l < {counted})'"}}}}'"""
    made = plugin(script)
    first = await made.headers()
    assert await made.refresh(first)
    assert await made.headers() != first
    assert len(plugin.exec_infos) == 2


async def test_plugin_runs_once_for_all_refused_requests(plugin, tmp_path):
    counted = tmp_path / "runs"
    script = f"""echo '{{"apiVersion":"{V1}","kind":"ExecCredential","status":{{"token":"'$(wc -l < {counted})'"}}}}'"""
    made = plugin(script)
    refused = await made.headers()
    assert all(await asyncio.gather(made.refresh(refused), made.refresh(refused), made.refresh(refused)))
    assert await made.refresh(refused)
    assert len(plugin.exec_infos) == 2


async def test_refresh_is_false_when_the_plugin_returns_the_same_credentials(plugin):
    made = plugin(prints({"token": "t"}))
    assert not await made.refresh(await made.headers())


async def test_plugin_may_return_a_client_certificate(plugin):
    made = plugin(prints({"clientCertificateData": "C", "clientKeyData": "K"}))
    assert await made.headers() == {}
    assert made.tls == ("C", "K")


@cases(
    "script, options, message",
    {
        "fails": ("echo trouble >&2; echo bad luck >&2; exit 3", {}, "failed with 3: bad luck"),
        "fails in silence": ("exit 1", {}, "failed with 1: it printed no error message"),
        "no JSON": ("echo hello", {}, "is not an ExecCredential: JSON is malformed"),
        "another version": (prints({"token": "t"}, version="v9"), {}, "is a ExecCredential of v9, not"),
        "another kind": (prints({"token": "t"}, kind="Pod"), {}, "is a Pod of"),
        "empty": (prints({}), {}, "neither a token nor a client certificate"),
        "no status": (prints(None), {}, "neither a token nor a client certificate"),
        "no key": (prints({"clientCertificateData": "C"}), {}, "a client certificate without a key"),
        "no terminal": (prints({"token": "t"}), {"interactiveMode": "Always"}, "needs a terminal"),
    },
)
async def test_failure_of_a_plugin_is_a_config_error(plugin, script, options, message):
    with pytest.raises(ConfigError, match=message) as caught:
        await plugin(script, **options).headers()
    assert str(caught.value).startswith(WHERE)
    assert "\n" not in str(caught.value)


async def test_missing_plugin_is_a_config_error():
    made = ExecPlugin(
        Exec(apiVersion=V1, command="/nowhere/plugin", installHint="Install it:\n  apt install plugin"),
        cluster={},
        with_certificate=lambda *_: None,
        where=WHERE,
    )
    message = (
        r"cannot run the credential plugin /nowhere/plugin: No such file or directory\. Install it: apt install plugin"
    )
    with pytest.raises(ConfigError, match=message):
        await made.headers()


async def test_plugin_that_hangs_is_killed(plugin, monkeypatch):
    monkeypatch.setattr(credentials_module, "PLUGIN_TIMEOUT", 0.05)
    with pytest.raises(ConfigError, match="took longer than"):
        await plugin("exec sleep 60").headers()
