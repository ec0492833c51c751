"""benchmarks/compare_revisions.py, from its arguments to its results."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONFIG = """
- name: Tiny
  workloadTemplate:
  - {opcode: createNodes, count: 1}
  - {opcode: createPods, count: 1}
  - {opcode: createPods, countParam: $pods, collectMetrics: true}
  workloads:
  - {name: fits, params: {pods: 3}}
  - {name: does not fit, params: {pods: 120}}
- name: Deleting
  workloadTemplate:
  - {opcode: createPods, count: 1, steadyState: true, duration: 1s, collectMetrics: true}
  workloads:
  - {name: unsupported}
"""


@pytest.fixture
def compare(tmp_path):
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a clone of the repository")
    (tmp_path / "performance-config.yaml").write_text(CONFIG)

    def run(revision, workload):
        script = [sys.executable, str(ROOT / "benchmarks" / "compare_revisions.py"), revision, "HEAD"]
        arguments = ["--rounds", "1", "--workload", str(tmp_path), workload]
        return subprocess.run([*script, *arguments], capture_output=True, text=True, check=False)

    return run


def test_comparison_prints_rounds_and_ratio(compare):
    done = compare("HEAD", "Tiny/fits")
    assert done.returncode == 0, done.stderr
    title, *lines = done.stdout.strip().splitlines()
    assert title == "Tiny/fits"
    assert [line.split()[0] for line in lines] == ["round"] * 2 + ["the"]
    assert all("pods/s  p50" in line for line in lines[:-1])
    assert lines[-1].endswith("they chose the same nodes")


@pytest.mark.parametrize(
    ("revision", "workload", "problem"),
    [
        ("no-such-revision", "Tiny/fits", "no-such-revision: fatal:"),
        ("HEAD", "Tiny/does not fit", "pods fit on no node"),
        ("HEAD", "Deleting/unsupported", "objects that are deleted, which this comparison does not support"),
    ],
)
def test_comparison_reports_what_it_cannot_compare(compare, revision, workload, problem):
    done = compare(revision, workload)
    assert done.returncode == 1
    assert problem in done.stderr
    assert "Traceback" not in done.stderr
