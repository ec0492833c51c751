"""The blocks of docs/serve.md run in their order, in a fresh folder."""

import json
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

from tests.support.served_questions import small_cluster

PAGE = (Path(__file__).parents[2] / "docs" / "serve.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_blocks_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("cluster.yaml").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(small_cluster())}))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    (command,) = blocks("sh")
    arguments = shlex.split(command.replace("8123", port))[1:]
    with subprocess.Popen([sys.executable, "-m", "bayplan", *arguments], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == f"url: http://127.0.0.1:{port}\n"
            code = "\n".join(blocks("python")).replace("8123", port)
            exec(code, {})
        finally:
            process.terminate()
    explained, nodes, requested = capsys.readouterr().out.splitlines()
    assert explained.startswith("pending 0/3 nodes are available")
    assert nodes.count("node-") == 8
    assert int(requested) > 8000
