import shutil
from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path):
    """A copy of the workloads, like a folder test/integration/scheduler_perf."""
    return shutil.copytree(Path(__file__).parent / "workloads", tmp_path / "scheduler_perf")
