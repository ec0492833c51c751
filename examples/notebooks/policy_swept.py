"""A marimo notebook: a policy is written, and swept over a history with several weights.

`marimo edit examples/notebooks/policy_swept.py` opens it; it is a script, too. `-- --history DIR` reads your history
instead of six hours of the sample. It needs `pip install 'path/to/bayplan[notebook]'`.
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="A policy, written and swept")


@app.cell
def _():
    import json
    import tempfile
    from pathlib import Path

    import altair as alt
    import marimo as mo
    from command import bayplan

    return Path, alt, bayplan, json, mo, tempfile


@app.cell
def _(mo):
    mo.md("""
    # A policy, written and swept

    A policy is a class in a file. Which weight should its score have? The notebook simulates a history with each one.
    """)


@app.cell
def _(mo):
    policy = mo.ui.code_editor(
        '''from bayplan import Plugin


class Fuller(Plugin):
    """Prefers nodes that have many pods already, so that others become empty."""

    name = "Fuller"

    def score(self, cycle, pod, node):
        return min(100, 10 * len(node.pods))
''',
        language="python",
        label="the policy",
    )
    policy
    return (policy,)


@app.cell
def _(Path, bayplan, mo, policy, tempfile):
    folder = Path(tempfile.mkdtemp())
    (folder / "policy.py").write_text(policy.value, encoding="utf-8")
    history = mo.cli_args().get("history")
    if not history:
        history = folder / "sample"
        bayplan("history", "sample", history, "--days", 0.25)
    return folder, history


@app.cell
def _(folder, history, json):
    weights = [1, 20]
    sweep = folder / "sweep.yaml"  # JSON is YAML
    sweep.write_text(
        json.dumps(
            {
                "histories": [str(history)],
                "seeds": [0],
                "objectives": ["node_hours", "evictions"],
                "now": {"autoscaler": "cluster-autoscaler"},
                "candidates": {
                    "autoscaler": ["cluster-autoscaler"],
                    "plugins": [["policy.py"]],
                    "set": {"Fuller.weight": weights},
                },
            }
        ),
        encoding="utf-8",
    )
    return sweep, weights


@app.cell
def _(bayplan, folder, json, sweep):
    answer = json.loads(bayplan("sweep", sweep, "--to", folder / "runs", "--jobs", 1, "--output", "json"))
    return (answer,)


@app.cell
def _(alt, answer):
    points = [
        {"choice": each["choice"], **dict(zip(answer["objectives"], each["objectives"], strict=True))}
        for each in answer["candidates"]
    ]
    chart = (
        alt.Chart(alt.Data(values=points), title="Node-hours and evictions")
        .mark_point(size=80, filled=True)
        .encode(
            x=alt.X("node_hours:Q", scale=alt.Scale(zero=False), title="node-hours"),
            y=alt.Y("evictions:Q", title="evictions"),
            color=alt.Color("choice:N"),
        )
        .properties(width=500, height=250)
    )
    chart
    return chart, points


@app.cell
def _(points):
    for point in points:
        print(f"{point['choice']}: {point['node_hours']:.1f} node-hours, {point['evictions']:.0f} evictions")


if __name__ == "__main__":
    app.run()
