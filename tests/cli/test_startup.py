"""Commands start quickly: they import what is slow only when they need it."""

import subprocess
import sys

from tests.support.tables import cases

from bayplan.insight import Snapshot

NODE = """
apiVersion: v1
kind: Node
metadata: {name: n}
status: {allocatable: {cpu: "4", pods: "10"}}
"""
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
"""
SLOW = {"aiohttp", "cryptography", "jinja2", "prometheus_client", "pyinstrument", "starlette", "trustme", "uvicorn"}
SERVERS = {
    "bayplan.running.client.http",
    "bayplan_devcluster.apiserver.server",
    "bayplan.foundations.http_server.server",
    "bayplan.running.service",
}
"""What a question about a file needs no part of."""
FOR_OTHERS = {
    "bayplan.core.config.loading",
    "bayplan_devcluster.apiserver.storage",
    "bayplan.core.devices.cel.compiling",
    "bayplan.answers.insight.questions.balance",
    "bayplan.answers.insight.questions.what_if",
    "httpx2",
    "lark",
    "lightkube.core.client",
    "yaml",
}
"""What a question about a saved snapshot needs no part of, if it is about nodes and pods."""
FOR_OTHER_RUNS = {
    "bayplan.answers.replay.policies",
    "bayplan.answers.snapshots.redaction.kinds",
    "bayplan.core.devices.cel.library",
    "bayplan.running.extender.client",
    "bayplan.running.provisioning.desk",
    "bayplan.running.recording.recorder",
    "bayplan_plugins",
    "httpx2",
    "jinja2",
    "lightkube.config.client_adapter",
    "rich",
}
"""What a scheduler needs no part of that neither records, nor answers requests, nor asks extenders."""
NEEDED_BY_QUESTIONS = {
    "bayplan.core.api",
    "celpy",
    "importlib.metadata",
    "lightkube",
    "msgspec",
    "numpy",
    "rich",
    "yaml",
}


def imported(folder, *arguments):
    """The modules that run for a call of `bayplan`."""
    program = (
        "import sys; from bayplan.faces.cli import main; "
        "from bayplan.foundations.lazy import has_run; main(sys.argv[1:], standalone_mode=False); "
        "print('modules:', *(name for name, module in sys.modules.items() if has_run(module)))"
    )
    command = [sys.executable, "-c", program, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
    return set(done.stdout.rpartition("modules:")[2].split())


@cases(
    "arguments, unwanted",
    {
        "help": (["--help"], SLOW | SERVERS | NEEDED_BY_QUESTIONS),
        "a question": (["explain", "--all-pending", "--from", "node.yaml"], SLOW | SERVERS),
        "a scheduler": (["run", "--config", "scheduler.yaml", "--write-config-to", "written.yaml"], FOR_OTHER_RUNS),
        "a saved snapshot": (["usage", "--from", "node.bayplan"], SLOW | SERVERS | FOR_OTHERS),
    },
)
def test_no_slow_modules_are_imported_in_vain(arguments, unwanted, tmp_path):
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "scheduler.yaml").write_text(CONFIGURATION)
    Snapshot.open(tmp_path / "node.yaml").save(tmp_path / "node.bayplan")
    assert imported(tmp_path, *arguments) & unwanted == set()
