"""Coscheduling: random runs of gangs over time, which kube-scheduler with upstream's plugin has made, too."""

from recorded_runs import counted, looks
from recorded_scenarios import recorded


def test_recorded_runs_end_alike():
    found = {each["run"]["Name"]: each for each in recorded("coscheduling_runs")}
    assert len(found) == 60
    different = {}
    for name, each in found.items():
        bound, groups = looks(each["run"])
        ours = [counted(those, groups) for those in bound]
        theirs = [[counted(those, groups) for those in run] for run in each["acceptable"]]
        if ours not in theirs:
            different[name] = (ours, theirs)
    assert different == {}


def test_recorded_runs_have_what_gangs_have():
    """Groups that are placed, that wait, that are gated, and whose members finish; and pods without one."""
    runs = [each["run"] for each in recorded("coscheduling_runs")]
    done = [what for run in runs for step in run["Steps"] for what in step["Do"]]
    kinds = {kind for what in done for kind in what}
    assert kinds == {"Node", "Group", "Pod", "Ungate", "Delete", "Finish"}
    pods = [what["Pod"] for what in done if "Pod" in what]
    assert sum("Group" in pod for pod in pods) > 300
    assert sum(pod.get("Gated", False) for pod in pods) > 20
    assert {run["Args"]["podGroupRejectPercentage"] for run in runs} == {0, 10, 34, 50, 100}
    assert {run["Args"]["podGroupBackoffSeconds"] for run in runs} == {0, 1, 3}
