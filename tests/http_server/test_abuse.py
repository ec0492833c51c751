"""Every port and every abuse: a reply in time, one log line without a traceback, and the port stays alive.

An abuse is a function of a port. It sends what a client should not send, and checks the replies.
"""

import asyncio
import gzip
import zlib
from dataclasses import replace

import pytest
from ports import PORTS, QUICK, head
from serving import closed

BOMB = gzip.compress(b"\0" * 2**20, 9)
"""A gzip member of a thousandth of the size of its contents. A file of 600 of them has 600 MiB."""
NUL = b"\0" * 65536


def deflate_bomb():
    """300 MiB of zeros as deflate."""
    compress = zlib.compressobj(9)
    first, again = (compress.compress(b"\0" * 2**20) + compress.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + again * 300


def is_one_line(text):
    """Whether an error has a short body without a traceback."""
    body = text.partition("\r\n\r\n")[2]
    return "Traceback" not in text and len(body) < 5000


async def half_sent_headers(port):
    opened = [await port.open(head(port.alive)[:-10]) for _ in range(10)]
    assert await port.is_alive()
    for reader, writer in opened:
        assert await closed(reader) == b""
        writer.transport.abort()


async def headers_byte_by_byte(port):
    reader, writer = await port.open()
    ended = asyncio.create_task(closed(reader))
    for byte in head(port.alive):
        writer.write(bytes([byte]))
        if (await asyncio.wait({ended}, timeout=0.05))[0]:
            break
    assert await ended == b""
    writer.transport.abort()


async def endless_header(port):
    status, text = await port.send(head(port.alive)[:-2] + b"X-Long: " + b"x" * 200_000 + b"\r\n\r\n")
    assert status in {0, 400, 431}
    assert is_one_line(text)


async def slow_body(port):
    for request in filter(None, (port.bodied, port.stranger, port.alive)):
        async with asyncio.timeout(5):
            status, text = await port.send(head(request, "Content-Length: 1000"), b"{")
        assert status == (408 if request == port.bodied else 200 if request == port.alive else status)
        assert status in {200, 401, 403, 408}
        assert is_one_line(text)


async def huge_body(port):
    for length in ("Content-Length: 10000000000", "Transfer-Encoding: chunked"):
        pieces = [NUL] * 64 if "Content" in length else [b"10000\r\n" + NUL + b"\r\n"] * 64
        for request in filter(None, (port.bodied, port.stranger, port.alive)):
            if request == port.bodied and "chunked" in length and "prioritize" in request:
                continue  # the extender takes 256 MiB
            status, text = await port.send(head(request, length), *pieces)
            assert status in ({413} if request == port.bodied else {0, 200, 401, 403})
            assert is_one_line(text)


async def gzip_bomb(port):
    for encoding, bomb in (("gzip", BOMB * 600), ("deflate", deflate_bomb())):
        for request in filter(None, (port.bodied, port.stranger, port.alive)):
            sending = asyncio.create_task(
                port.send(
                    head(request, f"Content-Encoding: {encoding}", f"Content-Length: {len(bomb)}"), bomb, within=60
                )
            )
            while not sending.done():
                async with asyncio.timeout(4):
                    assert await port.is_alive()
                await asyncio.wait({sending}, timeout=0.01)
            status, text = await sending
            assert status in ({400, 413} if request == port.bodied else {0, 200, 401, 403}), text
            assert is_one_line(text)


GARBAGE = {
    "text": b"this is not compressed",
    "empty": b"",
    "cut off": gzip.compress(b"{}" * 1000)[:-12],
    "wrong checksum": gzip.compress(b"{}")[:-8] + b"\0" * 8,
    "more after it": gzip.compress(b"{}") + b"garbage",
}


async def garbage_as_gzip(port):
    for name, body in GARBAGE.items():
        for request in filter(None, (port.bodied, port.stranger)):
            headers = ("Content-Encoding: gzip", f"Content-Length: {len(body)}")
            status, text = await port.send(head(request, *headers), body)
            allowed = {400, 401, 403} if request == port.stranger or "what-if" not in request else {303, 400}
            assert status in allowed, (name, text)
            assert is_one_line(text)


async def unknown_encoding(port):
    for request in filter(None, (port.bodied, port.stranger)):
        status, text = await port.send(head(request, "Content-Encoding: snappy", "Content-Length: 2"), b"\xff\xff")
        assert status in {303, 400, 401, 403, 415}
        assert is_one_line(text)


async def body_of_a_stranger(port):
    """It is neither waited for nor read: the reply comes at once."""
    if not port.stranger:
        return
    for length in (1000, 10_000_000_000):
        reader, writer = await port.open(head(port.stranger, f"Content-Length: {length}"))
        assert (await reader.readline()).split()[1] in {b"401", b"403"}  # a body that was waited for: 408
        writer.transport.abort()


async def many_connections(port):
    opened = [await port.open() for _ in range(QUICK.connections * 2)]
    for _ in range(3):
        assert await port.is_alive()
    for _, writer in opened:
        writer.transport.abort()


async def pipelined_requests(port):
    one = head(port.alive).replace(b"Connection: close\r\n", b"")
    reader, writer = await port.open(one * 200, head(port.alive))
    found = b""
    async with asyncio.timeout(30):
        while piece := await reader.read(1 << 16):
            found += piece
    assert found.count(b"HTTP/1.1 200 OK") == 201
    writer.transport.abort()


async def pipelined_requests_that_are_not_read(port):
    one = head(port.alive).replace(b"Connection: close\r\n", b"")
    opened = [await port.open(one * 20_000) for _ in range(3)]
    assert await port.is_alive()
    for _, writer in opened:
        writer.transport.abort()


async def odd_methods(port):
    path = port.alive.partition("\n")[0].split(" ")[1]
    rest = port.alive.partition("\n")
    for method in ("BREW", "PROPFIND", "CONNECT", "get", "G\0T", "\udcff"):
        status, text = await port.send(head(f"{method} {path} HTTP/1.1{rest[1]}{rest[2]}"))
        assert status in {400, 403, 404, 405, 501}, (method, text)
        assert is_one_line(text)


async def odd_paths(port):
    _, line, rest = port.alive.partition("\n")
    for path in (
        "/%ff%fe",
        "/%",
        "/%zz",
        "/%00",
        "//",
        "//evil.example/",
        "/../../etc/passwd",
        "/static/..%2f..%2fapp.py",
        "/\udcff",
        "*",
        "nothing",
        "http://evil.example/",
        "http://[::1",
        "/?%ff=%fe&limit=%C3%A9&seen=%00&token=%ff",
        "/" + "x" * 8000,
        "/" + "a/" * 3000,
        "/search?q=%ff%00",
        "/what-if?cordon=%ff&resource=%00&namespace=%ff",
        "/pods/%ff/%00?node=%ff",
    ):
        status, text = await port.send(head(f"GET {path} HTTP/1.1{line}{rest}"))
        assert status in {200, 303, 400, 401, 403, 404, 414}, (path, text)
        assert "Traceback" not in text


async def odd_http(port):
    alive = head(port.alive)
    for sent in (
        b"\0" * 1000,
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20,  # a TLS handshake
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        alive.replace(b"HTTP/1.1", b"HTTP/9.1.2"),
        alive.replace(b"Host: 127.0.0.1", b"Host: 127.0.0.1\r\nContent-Length: -1"),
        alive.replace(b"Host: 127.0.0.1", b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\nHost: 127.0.0.1"),
        alive.replace(b"Host: 127.0.0.1", b"Host: 127.0.0.1\r\nX: \xff\xfe\x00"),
        alive.replace(b"Host: 127.0.0.1", b"Host: 127.0.0.1\r\nExpect: something"),
        alive.replace(b"Host: 127.0.0.1", b"Host: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade"),
        alive[:-2] + b"X: y\r\n" * 1000 + b"\r\n",
    ):
        status, text = await port.send(sent)
        assert status in {0, 200, 400, 403, 413, 431}, (sent[:100], text)
        assert is_one_line(text) or status == 200
    for request in filter(None, (port.bodied, port.stranger)):
        for body in (b"zz\r\n", b"-5\r\nabc\r\n", b"ffffffffffffffffff\r\n", b"5;" + b"x" * 100_000):
            status, text = await port.send(head(request, "Transfer-Encoding: chunked"), body)
            assert status in {0, 400, 401, 403, 408}, (body[:50], text)
            assert is_one_line(text)


BODIES = {
    "keys that are not UTF-8": b'{"\xff\xfe": 1}',
    "an inner key that is not UTF-8": b'{"Pod": {"metadata": {"labels": {"\xff": "\xfe"}}}, "metadata": {"\xff": 1}}',
    "values that are not UTF-8": b'{"NodeNames": ["\xff"], "data": {"a": "\xff"}}',
    "a lone surrogate": b'{"NodeNames": ["\\ud800"], "\\udfff": 1}',
    "nested lists": b"[" * 20_000,
    "nested objects": b'{"Pod":' * 10_000,
    "a large number": b'{"Pod": ' + b"9" * 10_000 + b"}",
    "NUL": b"\0",
    "UTF-16": '{"Pod": 1}'.encode("utf-16"),
    "many fields": b"&".join(b"a=b" for _ in range(10_000)),
    "percent": b"%ff=%fe&change=%ff&text=%00&basket=%ff",
}


LAUGHS = b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + b"".join(
    b"a%d: &a%d [%s]\n" % (level, level, b", ".join([b"*a%d" % (level - 1)] * 10)) for level in range(1, 12)
)
"""YAML whose aliases stand for 10**12 values."""


async def odd_bodies(port):
    for name, body in BODIES.items():
        for request in filter(None, (port.bodied, port.stranger)):
            status, text = await port.send(head(request, f"Content-Length: {len(body)}"), body)
            assert status in {303, 400, 401, 403, 413, 422}, (name, text)
            assert is_one_line(text), name
    yaml = port.bodied.replace("application/json", "application/yaml")
    if yaml != port.bodied:
        for body in (LAUGHS, *(BODIES[name] for name in ("keys that are not UTF-8", "a large number", "UTF-16"))):
            status, text = await port.send(head(yaml, f"Content-Length: {len(body)}"), body)
            assert status in {400, 422}, text
            assert is_one_line(text)


ABUSES = [
    half_sent_headers,
    headers_byte_by_byte,
    endless_header,
    slow_body,
    huge_body,
    gzip_bomb,
    garbage_as_gzip,
    unknown_encoding,
    body_of_a_stranger,
    many_connections,
    pipelined_requests,
    pipelined_requests_that_are_not_read,
    odd_methods,
    odd_paths,
    odd_http,
    odd_bodies,
]


@pytest.mark.parametrize("abuse", ABUSES, ids=lambda abuse: abuse.__name__.replace("_", " "))
@pytest.mark.parametrize("name", PORTS)
async def test_abuse_is_refused_and_the_port_stays_alive(name, abuse, tmp_path, caplog):
    limits = replace(QUICK, body=60.0) if abuse is gzip_bomb else QUICK
    async with PORTS[name](limits, tmp_path) as port:
        await abuse(port)
        assert await port.is_alive(within=3)
    assert not [record for record in caplog.records if record.exc_info], caplog.text
    assert "Traceback" not in caplog.text
    assert len(caplog.messages) <= 12, caplog.text
