"""Workloads of scheduler_perf on the decision core."""

import pytest

from bayplan.benchmarking.core import Core, run_on_core
from bayplan.benchmarking.selection import named
from bayplan.benchmarking.templates import BenchmarkError, ObjectTemplate
from bayplan.benchmarking.workloads import read_workloads
from bayplan.core.api.kinds import POD
from bayplan.core.api.kinds import SERVICE as SERVICE_KIND


def measure(folder, name):
    """The only measurement of a workload."""
    (found,) = named(read_workloads(folder / "misc/performance-config.yaml"), [name])
    (measured,) = run_on_core(found)
    return measured


def attempts(measured):
    return {result: durations.count for result, durations in measured.attempts.items() if durations.count}


def test_pods_are_scheduled_and_measured(folder):
    measured = measure(folder, "Basic/Small")
    assert measured.name == "Basic/Small/namespace-4"
    assert measured.scheduled == 20
    assert measured.average > 0
    assert sum(measured.throughputs()) > 0
    assert 0 < measured.bound_at[0] < measured.bound_at[-1] <= measured.seconds
    assert attempts(measured) == {"scheduled": 20}


def test_each_namespace_of_a_pod_set_is_measured(folder):
    (found,) = named(read_workloads(folder / "misc/performance-config.yaml"), ["Sets/Any"])
    assert [(each.name, each.scheduled) for each in run_on_core(found)] == [
        (f"Sets/Any/ns-{number}", 4) for number in range(3)
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Without an API server that tells when, a pod that fits nowhere is attempted until the wait ends.
        ("Basic/Tight", "0 of 5 pods in namespace namespace-4 are scheduled; pod namespace-4/z-"),
        # Of eight devices two are held, and two shared by five pods each.
        ("Devices/Full", "4 of 5 pods in namespace test are scheduled"),
        # A claim for each, created when the pod is bound.
        ("Extended/Any", "4 of 5 pods in namespace namespace-3 are scheduled"),
        # Two nodes that take three volumes each.
        ("Volumes/Any", "6 of 7 pods in namespace namespace-1 are scheduled"),
        # A quota in a custom object, of a kind that the workload defines.
        ("Custom/Full", "3 of 5 pods in namespace team are scheduled"),
        ("Churn/Broken", "in the background: no ResourceClaimTemplate template in namespace churn"),
        ("Churn/Odd", "churn: mode is 'odd' and number 2, expected create, or recreate with a number"),
    ],
)
def test_workload_that_does_not_end_says_why(folder, name, expected):
    with pytest.raises(BenchmarkError) as raised:
        measure(folder, name)
    assert expected in str(raised.value)


def test_steady_state_schedules_pods_until_its_time_is_over(folder):
    (found,) = named(read_workloads(folder / "misc/performance-config.yaml"), ["Devices/Steady"])
    shared, steady = run_on_core(found)
    assert shared.scheduled == 10
    assert steady.scheduled % 4 == 0
    assert steady.seconds > 0.01


def test_preemptors_take_the_place_of_their_victims(folder):
    measured = measure(folder, "Preemption/Any")
    assert attempts(measured) == {"scheduled": 2, "unschedulable": 2}


def test_gated_pods_count_as_attempted_and_are_scheduled_after_an_update(folder):
    measured = measure(folder, "Gated/Any")
    assert measured.scheduled == 3
    assert attempts(measured) == {"scheduled": 3}


def test_objects_are_made_before_the_first_is_sent(folder, monkeypatch):
    done = []
    document, replace = ObjectTemplate.document, Core.replace
    monkeypatch.setattr(ObjectTemplate, "document", lambda *args: done.append(args[0].path.name) or document(*args))
    monkeypatch.setattr(Core, "replace", lambda *args: done.append("sent") or replace(*args))
    measure(folder, "Gated/Any")
    assert done[-6:] == ["released-pod.yaml"] * 3 + ["sent"] * 3


@pytest.mark.parametrize("name", ["Blocked/Background", "Blocked/Foreground"])
def test_pods_wait_until_others_are_deleted(folder, name):
    measured = measure(folder, name)
    assert measured.scheduled == 4
    assert measured.seconds < 1  # it lasted 2 s of virtual time, in which the scheduler worked little


def test_deleted_pod_wakes_one_of_the_pods_that_wait_for_room_for_volumes(folder):
    measured = measure(folder, "VolumesInUse/Any")
    assert attempts(measured) == {"scheduled": 6, "unschedulable": 5}  # after each pod but the last, the next one fails


@pytest.mark.parametrize(("name", "churned"), [("Churn/Create", 2), ("Churn/Recreate", 0)])
def test_churn_creates_objects_in_the_background(folder, name, churned, monkeypatch):
    cores = []
    monkeypatch.setattr(Core, "clock", lambda self: cores.append(self) or self._busy)
    assert measure(folder, name).scheduled == 5
    names = [key for key in cores[-1].objects[POD] if key.startswith("churn/")]
    services = [key for key in cores[-1].objects[SERVICE_KIND] if key.startswith("churn/")]
    assert len(services) == churned
    assert len(names) == 2  # on a node, without a kubelet, they stay until they are stopped
