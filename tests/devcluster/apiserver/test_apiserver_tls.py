"""HTTPS with a private certificate authority, and bearer tokens."""

import base64
import ssl

import aiohttp
import pytest
import yaml

from bayplan_devcluster.apiserver import Address, ApiServer, Tls


async def test_client_with_the_kubeconfig_is_authenticated():
    async with ApiServer(address=Address(tls=Tls.create()), tokens={"secret": "me"}) as server:
        config = yaml.safe_load(server.kubeconfig())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=authority)
        headers = {"Authorization": f"Bearer {user['token']}"}
        async with aiohttp.ClientSession(cluster["server"]) as session:
            async with session.get("/api/v1/nodes", ssl=context, headers=headers) as response:
                assert response.status == 200
            async with session.get("/api/v1/nodes", ssl=context) as response:
                assert response.status == 401


async def test_client_without_the_authority_rejects_the_server():
    async with ApiServer(address=Address(tls=Tls.create())) as server, aiohttp.ClientSession(server.url) as session:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.get("/healthz")


async def test_plain_http_needs_no_credentials():
    async with ApiServer() as server:
        config = yaml.safe_load(server.kubeconfig())
        assert config["clusters"][0]["cluster"] == {"server": server.url}
        assert config["users"][0]["user"] == {}
