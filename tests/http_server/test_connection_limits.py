"""The limits of a server, over sockets: how many connections it has, and for how long it waits for clients."""

import asyncio
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from serving import HALF, QUICK, REQUEST, closed, contexts, served
from tests.support.tables import cases
from tests.support.waiting import PATIENCE, until

PATIENT = replace(QUICK, handshake=60, header=60, idle=60)


@cases("tls", {"HTTP": False, "HTTPS": True})
async def test_half_sent_requests_are_dropped(tmp_path, caplog, tls):
    server, client = contexts(tmp_path) if tls else (None, None)
    async with served(tls=server) as one:
        opened = [await one.open(HALF, client) for _ in range(20)]
        assert b"served" in await one.get(client)
        for reader, _ in opened:
            assert await closed(reader) == b""
        await one.until_connections(0)
        for _, writer in opened:
            writer.close()
    assert [message.partition(":")[0] for message in caplog.messages] == ["no complete request within 0.2 s"] * 2
    assert "19 more times" in caplog.messages[1]


async def test_bytes_that_arrive_slowly_do_not_extend_the_time_for_the_header():
    async with served() as one:
        reader, writer = await one.open()
        closing = asyncio.create_task(closed(reader))
        for byte in REQUEST:
            writer.write(bytes([byte]))
            if (await asyncio.wait({closing}, timeout=0.02))[0]:
                break
        assert await closing == b""
        writer.close()


async def test_the_header_of_a_later_request_has_a_limit():
    async with served(replace(QUICK, idle=60)) as one:
        reader, writer = await one.open(REQUEST)
        await reader.readuntil(b"served")
        with pytest.raises(TimeoutError):  # it stays open, idle for longer than a header may take
            await asyncio.wait_for(reader.read(1), 0.3)
        writer.write(REQUEST)
        await reader.readuntil(b"served")
        writer.write(HALF)
        assert await closed(reader) == b""
        writer.close()


async def test_idle_connections_are_closed():
    async with served() as one:
        reader, writer = await one.open(REQUEST)
        await reader.readuntil(b"served")
        assert await closed(reader) == b""
        await one.until_connections(0)
        writer.close()


async def test_handshakes_that_do_not_begin_are_dropped(tmp_path, caplog):
    server, _ = contexts(tmp_path)
    async with served(tls=server) as one:
        reader, writer = await one.open()
        assert await closed(reader) == b""
        await one.until_connections(0)
        writer.close()
    assert "TLS handshake failed: SSL handshake is taking longer than 0.2 seconds" in caplog.text


async def test_requests_in_progress_have_no_limit():
    async with served() as one:
        reader, writer = await one.open(REQUEST.replace(b"/ ", b"/wait ", 1))
        await one.begun.wait()
        with pytest.raises(TimeoutError):  # it is neither answered nor closed
            await asyncio.wait_for(reader.read(1), 0.5)
        one.release.set()
        assert b"served" in await reader.readuntil(b"served")
        writer.close()


async def test_a_client_that_does_not_read_is_dropped(caplog):
    async with served() as one:
        _, writer = await one.open(REQUEST.replace(b"/ ", b"/large ", 1))
        await one.until_connections(1)
        await one.until_connections(0)
        writer.close()
    assert "a client did not read its response: 127.0.0.1" in caplog.text


@cases("tls", {"HTTP": False, "HTTPS": True})
async def test_a_new_connection_replaces_the_one_that_waits_longest(tmp_path, caplog, tls):
    server, client = contexts(tmp_path) if tls else (None, None)
    async with served(replace(PATIENT, connections=10), tls=server) as one:
        held = [await one.open(HALF, client) for _ in range(10)]
        used, writer = await one.open(REQUEST, client)  # replaces the first
        await used.readuntil(b"served")
        assert await closed(held[0][0]) == b""
        for _ in range(20):
            assert b"served" in await one.get(client)
            assert one.connections <= 10
        writer.close()
        for _, other in held:
            other.close()
    assert len(caplog.messages) == 2
    assert caplog.messages[0] == "closed a waiting connection, because 10 are open"


async def test_handshakes_count_as_waiting_connections(tmp_path):
    server, client = contexts(tmp_path)
    async with served(replace(PATIENT, connections=10), tls=server) as one:
        held = [await one.open() for _ in range(30)]  # without a handshake
        await one.until_connections(10)
        assert b"served" in await one.get(client)
        for reader, writer in held[:20]:
            assert await closed(reader) == b""
            writer.close()
        for _, writer in held[20:]:
            writer.close()


async def test_connections_are_refused_if_all_serve_requests(caplog):
    async with served(replace(PATIENT, connections=5)) as one:
        busy = [await one.open(REQUEST.replace(b"/ ", b"/wait ", 1)) for _ in range(5)]
        await until(lambda: one.serving == 5)
        for _ in range(3):
            reader, writer = await one.open(REQUEST)
            assert await closed(reader) == b""
            writer.close()
        one.release.set()
        for reader, writer in busy:
            assert b"served" in await reader.readuntil(b"served")
            writer.close()
    assert caplog.messages[0] == "refused a connection, because 5 serve requests"


async def test_stopping_drops_handshakes_and_idle_connections(tmp_path):
    server, client = contexts(tmp_path)
    async with served(PATIENT, tls=server) as one:
        shaking, first = await one.open()
        idle, second = await one.open(REQUEST, client)
        await idle.readuntil(b"served")
        await one.until_connections(2)
        async with asyncio.timeout(5):
            await one.http.stop(60)
        assert await closed(shaking) == await closed(idle) == b""
        first.close()
        second.close()


def run_server(source, **environ):
    """Start a Python program that prints its port."""
    path = os.pathsep.join([str(Path(__file__).parents[2] / "src"), str(Path(__file__).parent)])
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(source)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environ},
    )
    return process, int(process.stdout.readline())


EXHAUSTED = """
    import asyncio, logging, resource
    from dataclasses import replace
    from serving import QUICK, served

    async def main():
        logging.basicConfig()
        resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
        async with served(replace(QUICK, header=1.0, connections=1000)) as one:
            print(one.port, flush=True)
            await asyncio.to_thread(input)

    asyncio.run(main())
"""


async def test_without_descriptors_accepting_pauses_and_continues():
    process, port = run_server(EXHAUSTED)
    with process:
        opened = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
        async with asyncio.timeout(PATIENCE):
            first = (await asyncio.to_thread(os.read, process.stderr.fileno(), 1 << 16)).decode()
        for _, writer in opened[:90]:
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(REQUEST)
        async with asyncio.timeout(20):
            assert b"served" in await reader.readuntil(b"served")
        for _, each in (*opened[90:], (reader, writer)):
            each.close()
        _, rest = process.communicate("\n", timeout=20)
    errors = first + rest
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert len(re.findall("cannot accept connections: Too many open files", errors)) == 1
    assert len(errors.splitlines()) < 6


HELD = """
    import asyncio, tempfile
    from pathlib import Path
    from bayplan.running.service.serving.health import HealthChecks
    from bayplan.running.service.serving.options import SecureServing, ServingOptions
    from bayplan.running.service.serving.server import EndpointServer

    secure = SecureServing(port=0, bind_address="127.0.0.1")
    server = EndpointServer(ServingOptions(secure=secure), {}, HealthChecks())
    server.start()
    print(server.port, flush=True)
    input()
"""


async def test_memory_for_800_half_sent_requests_is_bounded(tmp_path):
    _, client = contexts(tmp_path)
    process, port = run_server(HELD)
    with process:

        async def open_half(number):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
            writer.write(HALF)
            return reader, writer

        before = megabytes(process.pid)
        held = []
        for start in range(0, 800, 50):
            held += await asyncio.gather(*[open_half(start + number) for number in range(50)])
        grown = megabytes(process.pid) - before
        sockets = descriptors(process.pid)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        writer.write(REQUEST.replace(b"/ ", b"/livez ", 1))
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        for _, each in (*held, (reader, writer)):
            each.transport.abort()
        process.communicate("\n", timeout=20)
    assert grown < 80  # 230 without a limit
    assert sockets < 128 + 20


def megabytes(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) / 1000


def descriptors(pid):
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))
