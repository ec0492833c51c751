import asyncio
import sys

import pytest
from playground import EXAMPLES, environment

SCRIPTS = sorted(EXAMPLES.glob("*.py"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
async def test_missing_kubeconfig_is_a_one_line_error(script, tmp_path):
    missing = tmp_path / "nowhere"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(script),
        "--kubeconfig",
        str(missing),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment(),
    )
    output, errors = await process.communicate()
    assert (process.returncode, output) == (2, b"")
    assert errors.count(b"\n") == 1
    assert str(missing).encode() in errors


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_docstring_shows_how_to_run_the_script(script):
    assert f"python examples/{script.name} --kubeconfig" in script.read_text(encoding="utf-8")
