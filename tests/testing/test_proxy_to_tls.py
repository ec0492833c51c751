import ssl

import aiohttp
from aiohttp import web
from tests.support.certificates import Authority
from tests.support.proxy import FaultProxy


async def test_proxy_forwards_to_a_tls_server_and_replaces_texts_of_responses(tmp_path):
    async def answer(request):
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in (b'{"cpu":"1', b'00m"}\n{"cpu":"20', b'0m"}\n{"cpu":"100m"}'):
            await response.write(chunk)
        return response

    authority = Authority()
    pair = authority.server("127.0.0.1")
    (tmp_path / "server.crt").write_bytes(pair.certificate)
    (tmp_path / "server.key").write_bytes(pair.key)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    runner = web.ServerRunner(web.Server(answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    target = f"https://127.0.0.1:{runner.addresses[0][1]}"
    async with FaultProxy(target, tls=trust) as proxy, aiohttp.ClientSession() as session:
        proxy.inject("GET", "^/broken", replace={b'"100m"': b'"lots"'})
        async with session.get(f"{proxy.url}/broken") as broken, session.get(f"{proxy.url}/whole") as whole:
            assert await broken.text() == '{"cpu":"lots"}\n{"cpu":"200m"}\n{"cpu":"lots"}'
            assert await whole.text() == '{"cpu":"100m"}\n{"cpu":"200m"}\n{"cpu":"100m"}'
    await runner.cleanup()
