"""A marimo notebook: a night that was recorded, made again: who was evicted for whom, and what another policy would do.

`marimo edit examples/notebooks/night_replayed.py` opens it; it is a script, too. `-- --recording DIR` reads a
recording of yours. Without it, some minutes of a night are recorded first, in as many seconds.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="What happened last night?")


@app.cell
def _():
    import json
    import re
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    import marimo as mo
    from command import bayplan

    return Path, bayplan, json, mo, re, subprocess, sys, tempfile


@app.cell
def _(mo):
    mo.md("""
    # What happened last night?

    `bayplan run --record` records what decisions rest on. The notebook makes them again, exactly, and asks what another
    policy would have decided in each moment.
    """)


@app.cell
def _(Path, bayplan, subprocess, sys, tempfile):
    def record_a_night(reports):
        """Run a scheduler on an embedded cluster whose minutes are seconds, until it has placed so many reports."""
        folder = Path(tempfile.mkdtemp())
        kubeconfig, night = folder / "cluster.yaml", folder / "night"
        manifests = Path(__file__).with_name("night.yaml")
        size = ("--nodes", "2", "--cpu", "4", "--clock-rate", "60")
        bayplan("cluster", "--detach", *size, "-f", manifests, "--kubeconfig", kubeconfig)
        options = ["--kubeconfig", kubeconfig, "--record", night, "--secure-port", "0", "-v"]
        command = [sys.executable, "-m", "bayplan", "run", *map(str, options)]
        placed = 0
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as scheduler:
            for line in scheduler.stderr:
                bound = "/report-" in line and " bound to " in line
                placed += bound
                if bound and placed == reports:
                    scheduler.terminate()  # once: a second signal would end it before the recording is written
        bayplan("cluster", "--stop", "--kubeconfig", kubeconfig)
        return night

    return (record_a_night,)


@app.cell
def _(bayplan, json, mo, record_a_night):
    recording = mo.cli_args().get("recording") or record_a_night(2)
    replayed = json.loads(bayplan("replay", recording, "--output", "json"))
    mo.md(
        f"**{replayed['decisions']} decisions** from {replayed['began']} to {replayed['ended']}, made again: "
        f"{'all are the same' if replayed['difference'] is None else replayed['difference']}."
    )
    return recording, replayed


@app.cell
def _(bayplan, mo, re, recording):
    decided = bayplan("replay", recording, "--list").splitlines()
    evictions = [
        {"time": found[1], "for": found[2], "node": found[3], "pods": found[4].split(", ")}
        for line in decided
        if (found := re.search(r"\d+ (\S+ \S+) (\S+): .*preempts \d+ pods? on node (\S+) \(([^)]*)\)", line))
    ]
    mo.ui.table(evictions, label="Who was evicted for whom")
    return decided, evictions


@app.cell
def _(bayplan, evictions, mo, recording):
    reason = bayplan("why", evictions[-1]["for"], "--recording", recording) if evictions else "No pod was evicted."
    mo.md(f"```text\n{reason}\n```")
    return (reason,)


@app.cell
def _(mo):
    candidates = {
        "the fullest nodes first": "NodeResourcesFit.scoringStrategy.type=MostAllocated",
        "no preemption": "DefaultPreemption.enabled=false",
        "no preference for nodes that have the image": "ImageLocality.weight=0",
    }
    candidate = mo.ui.dropdown(candidates, value="the fullest nodes first", label="another policy")
    candidate
    return (candidate,)


@app.cell
def _(bayplan, candidate, json, mo, recording):
    other = json.loads(bayplan("replay", recording, "--set", candidate.value, "--output", "json"))
    mo.vstack(
        [
            mo.md(f"In the same moments, {other['same']} of {other['asked']} decisions are the same."),
            mo.ui.table(other["differences"]),
        ]
    )
    return (other,)


@app.cell
def _(evictions, other, replayed):
    print(f"{replayed['decisions']} decisions, {len(evictions)} evictions, first difference: {replayed['difference']}")
    print(f"another policy: {other['same']} of {other['asked']} the same")


if __name__ == "__main__":
    app.run()
