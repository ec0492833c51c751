"""A marimo notebook: what another way to score nodes would have made of a history.

`marimo edit examples/notebooks/week_compared.py` opens it; it is a script, too. `-- --history DIR` reads your history
instead of the sample. It needs `pip install 'path/to/bayplan[notebook]'`.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="What would another scheduler have done?")


@app.cell
def _():
    import json
    import tempfile
    from collections import Counter
    from pathlib import Path

    import altair as alt
    import marimo as mo
    from command import bayplan

    from bayplan.history import History, PodArrived

    return Counter, History, Path, PodArrived, alt, bayplan, json, mo, tempfile


@app.cell
def _(mo):
    mo.md("""
    # What would another scheduler have done?

    The notebook simulates a history twice: as it was scheduled, and with the candidate that you choose here.
    """)


@app.cell
def _(mo):
    candidates = {
        "the fullest nodes first": "NodeResourcesFit.scoringStrategy.type=MostAllocated",
        "twice the weight for spreading": "PodTopologySpread.weight=4",
        "no preference for nodes that have the image": "ImageLocality.weight=0",
    }
    candidate = mo.ui.dropdown(candidates, value="the fullest nodes first", label="candidate")
    autoscaler = mo.ui.dropdown(["cluster-autoscaler", "karpenter", "none"], value="cluster-autoscaler", label="nodes")
    mo.hstack([candidate, autoscaler], justify="start")
    return autoscaler, candidate


@app.cell
def _(History, Path, bayplan, mo, tempfile):
    folder = mo.cli_args().get("history")
    if not folder:
        folder = Path(tempfile.mkdtemp()) / "sample"
        bayplan("history", "sample", folder, "--days", 1)
    history = History.open(folder)
    mo.md(f"**{history.source}**: {history.pods:,} pods from {history.begin:%Y-%m-%d} on, {history.length}.")
    return folder, history


@app.cell
def _(Counter, PodArrived, alt, history):
    arrived = Counter(
        int((event.time - history.begin).total_seconds() // 3600)
        for event in history.events()
        if isinstance(event, PodArrived)
    )
    arrivals = [{"hour": hour, "pods": pods} for hour, pods in sorted(arrived.items())]
    arrivals_chart = (
        alt.Chart(alt.Data(values=arrivals), title="Pods that arrived, by hour")
        .mark_bar()
        .encode(x=alt.X("hour:Q", title="hours since the start"), y=alt.Y("pods:Q", title="pods"))
        .properties(width=600, height=120)
    )
    arrivals_chart
    return arrivals, arrivals_chart


@app.cell
def _(autoscaler, bayplan, candidate, folder, json):
    options = ["--set", candidate.value, "--autoscaler", autoscaler.value]
    answer = json.loads(bayplan("compare", "--history", folder, *options, "--output", "json"))
    policies = {"now": answer["now"], "candidate": answer["candidate"]}
    return answer, policies


@app.cell
def _(alt, policies):
    nodes = [
        {"policy": name, "hour": point["seconds"] / 3600, "nodes": point["nodes"]}
        for name, simulated in policies.items()
        for point in simulated["curve"]
    ]
    nodes_chart = (
        alt.Chart(alt.Data(values=nodes), title="Nodes")
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("hour:Q", title="hours since the start"),
            y=alt.Y("nodes:Q", title="nodes"),
            color=alt.Color("policy:N", sort=["now", "candidate"]),
        )
        .properties(width=600, height=200)
    )
    nodes_chart
    return nodes, nodes_chart


@app.cell
def _(alt, policies):
    waits = [
        {"policy": name, "quantile": quantile, "seconds": seconds}
        for name, simulated in policies.items()
        for quantile, seconds in simulated["waits"].items()
        if seconds is not None
    ]
    waits_chart = (
        alt.Chart(alt.Data(values=waits), title="How long pods waited")
        .mark_bar()
        .encode(
            x=alt.X("quantile:N", title=None),
            xOffset=alt.XOffset("policy:N", sort=["now", "candidate"]),
            y=alt.Y("seconds:Q", title="seconds"),
            color=alt.Color("policy:N", sort=["now", "candidate"]),
        )
        .properties(width=200, height=200)
    )
    waits_chart
    return waits, waits_chart


@app.cell
def _(answer, policies):
    summary = [
        f"{name}: {simulated['nodeHours']:.0f} node-hours, wait p95 {simulated['waits']['p95']:.1f} s, "
        f"{simulated['neverPlaced']} pods never placed"
        for name, simulated in policies.items()
    ]
    print("\n".join([*summary, *(f"note: {note}" for note in answer["notes"])]))
    return (summary,)


if __name__ == "__main__":
    app.run()
