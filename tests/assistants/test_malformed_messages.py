"""Malformed messages are answered, over standard input and over HTTP, and cost only themselves."""

import json
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from mcp import types
from tests.assistants.test_assistant_http import ACCEPT, LIST, WITH, served
from tests.support.served_questions import small_cluster

from bayplan.faces.assistants.malformed import refused

BEGIN = {
    "jsonrpc": "2.0",
    "id": "begin",
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
CASES = {
    "no JSON": (b"hello", None, types.PARSE_ERROR),
    "cut JSON": (b'{"jsonrpc":"2.0","id":1', None, types.PARSE_ERROR),
    "no UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', None, types.PARSE_ERROR),
    "half of a surrogate pair": (b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}', None, types.PARSE_ERROR),
    "nested too deeply": (b"[" * 100_000, None, types.PARSE_ERROR),
    "a batch": (b"[]", None, types.INVALID_REQUEST),
    "a number": (b"42", None, types.INVALID_REQUEST),
    "null": (b"null", None, types.INVALID_REQUEST),
    "nothing in it": (b"{}", None, types.INVALID_REQUEST),
    "another version": (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 1, types.INVALID_REQUEST),
    "no method": (b'{"jsonrpc":"2.0","id":"a"}', "a", types.INVALID_REQUEST),
    "method is a number": (b'{"jsonrpc":"2.0","id":1,"method":7}', 1, types.INVALID_REQUEST),
    "id is an object": (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', None, types.INVALID_REQUEST),
    "id is null": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, types.INVALID_REQUEST),
    "id is true": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, types.INVALID_REQUEST),
    "id has a fraction": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, types.INVALID_REQUEST),
    "params are a list": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 1, types.INVALID_PARAMS),
}


@pytest.mark.parametrize(("message", "identity", "code"), CASES.values(), ids=CASES)
def test_malformed_message_has_an_answer_of_one_line(message, identity, code):
    found = refused(message)
    assert (found["jsonrpc"], found["id"], found["error"]["code"]) == ("2.0", identity, code)
    assert found["error"]["message"].isprintable()


@pytest.mark.parametrize(
    "message",
    [
        LIST,
        BEGIN,
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
        {"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": "no"}},
    ],
)
def test_messages_of_the_protocol_are_none_of_these(message):
    assert refused(json.dumps(message).encode()) is None


def test_standard_input_with_malformed_messages_is_answered_to_its_end(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(small_cluster())}))
    command = [str(Path(sys.executable).with_name("bayplan")), "mcp", "--from", str(cluster)]
    lines = [message for message, _, _ in CASES.values()]
    begun = [json.dumps(BEGIN).encode(), b'{"jsonrpc":"2.0","method":"notifications/initialized"}', b""]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            process.stdin.write(b"\n".join([*lines, *begun, json.dumps(LIST).encode()]) + b"\n")
            process.stdin.flush()
            answers = [json.loads(process.stdout.readline()) for _ in range(len(CASES) + 2)]
        finally:
            process.terminate()
    errors = [answer["error"]["code"] for answer in answers if "error" in answer]
    assert sorted(errors) == sorted(code for _, _, code in CASES.values())
    assert {answer["id"] for answer in answers if "result" in answer} == {"begin", 1}


async def test_http_answers_them_with_400():
    async with served() as url, aiohttp.ClientSession(headers={**WITH, **ACCEPT}) as session:
        for message, identity, code in CASES.values():
            async with session.post(url, data=message, headers={"Content-Type": "application/json"}) as response:
                found = await response.json()
            assert (response.status, found["id"], found["error"]["code"]) == (400, identity, code)
        async with session.post(url, json=LIST) as response:
            assert response.status == 200
