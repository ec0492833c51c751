import pytest
from lightkube.models.core_v1 import Pod
from tests.support.tables import cases

from bayplan.core.api import requests
from bayplan.core.api.objects import convert
from bayplan.core.cluster.pod_info import PodInfo


def container(name="main", *, restart=None, **amounts):
    return {
        "name": name,
        "image": "i",
        "resources": {"requests": amounts},
        **({"restartPolicy": restart} if restart else {}),
    }


def pod(containers, *, init=(), status=None, **spec):
    return convert(
        Pod,
        {
            "metadata": {"name": "p"},
            "spec": {"containers": containers, "initContainers": list(init), **spec},
            "status": status or {},
        },
    )


def cpu(amounts):
    return amounts.get("cpu", 0) // 10**6


@cases(
    "made, milli_cpu",
    {
        "nothing": (pod([container()]), 0),
        "containers add up": (pod([container(cpu="1"), container("b", cpu="250m")]), 1250),
        "maximum of init container and containers": (pod([container(cpu="1")], init=[container("i", cpu="3")]), 3000),
        "maximum of two init containers": (
            pod([container(cpu="1")], init=[container("i", cpu="3"), container("j", cpu="2")]),
            3000,
        ),
        "a sidecar is added": (pod([container(cpu="1")], init=[container("s", cpu="2", restart="Always")]), 3000),
        "an init container runs with the sidecars before it": (
            pod([container(cpu="1")], init=[container("s", cpu="2", restart="Always"), container("i", cpu="5")]),
            7000,
        ),
        "an init container doesn't run with the sidecars after it": (
            pod([container(cpu="1")], init=[container("i", cpu="5"), container("s", cpu="2", restart="Always")]),
            5000,
        ),
        "overhead": (pod([container(cpu="1")], overhead={"cpu": "100m"}), 1100),
        "pod level replaces the sum": (pod([container(cpu="1")], resources={"requests": {"cpu": "4"}}), 4000),
        "overhead is added to pod level requests": (
            pod([container(cpu="1")], resources={"requests": {"cpu": "4"}}, overhead={"cpu": "1"}),
            5000,
        ),
        "pod level limits don't replace requests": (
            pod([container(cpu="1")], resources={"limits": {"cpu": "4"}}),
            1000,
        ),
    },
)
def test_pod_requests(made, milli_cpu):
    assert cpu(requests.pod_requests(made)) == milli_cpu


def resizing(actual, allocated, *, infeasible=False):
    conditions = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}] if infeasible else []
    statuses = [
        {
            "name": "main",
            "image": "i",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "resources": {"requests": {"cpu": actual}},
            "allocatedResources": {"cpu": allocated},
        }
    ]
    return pod([container(cpu="2")], status={"containerStatuses": statuses, "conditions": conditions})


@cases(
    "made, milli_cpu",
    {
        "growing: desired": (resizing("1", "1"), 2000),
        "shrinking: actual": (resizing("3", "2"), 3000),
        "allocated": (resizing("1", "4"), 4000),
        "infeasible: desired doesn't count": (resizing("1", "1", infeasible=True), 1000),
    },
)
def test_pending_resize_counts_only_with_status(made, milli_cpu):
    assert cpu(requests.pod_requests(made, use_status=True)) == milli_cpu
    assert cpu(requests.pod_requests(made)) == 2000


def status_of(name="c1", *, allocated=None, actual=None):
    """A container's status; without `actual`, it has no resources at all."""
    known = {"name": name, "image": "i", "imageID": "", "ready": True, "restartCount": 0}
    if allocated is not None:
        known["allocatedResources"] = {"cpu": allocated}
    if actual is not None:
        known["resources"] = {"requests": {"cpu": actual}}
    return known


def resized(containers, *statuses, init=(), of_init=(), infeasible=False, of_pod=(None, None), **spec):
    """A pod with statuses of its containers, and with what it was granted and has itself: `of_pod`."""
    status = {"containerStatuses": list(statuses), "initContainerStatuses": list(of_init)}
    if infeasible:
        status["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]
    if of_pod[0] is not None:
        status["allocatedResources"] = {"cpu": of_pod[0]}
    if of_pod[1] is not None:
        status["resources"] = {"requests": {"cpu": of_pod[1]}}
    return pod(containers, init=init, status=status, **spec)


ONE, TWO = container("c1", cpu="1"), container("c2", cpu="2")


def level(cpu):
    return {"resources": {"requests": {"cpu": cpu}}}


@cases(
    "made, before, since",
    {
        # From TestAggregateContainerRequestsAndLimits and TestPodRequestsAndLimitsVerticalScalingWrappers of 1.37.
        "requests in the status only": (resized([container("c1")], status_of(actual="2")), 2000, 2000),
        "a sidecar with requests in the status only": (
            resized([], init=[container("c1", restart="Always")], of_init=[status_of(actual="2")]),
            2000,
            2000,
        ),
        "one container grows, another one shrinks": (
            resized([ONE, TWO], status_of("c1", allocated="2"), status_of("c2", allocated="1")),
            3000,  # without actual resources, what was granted didn't count
            3000,
        ),
        "the pod's own status has the sums": (resized([ONE], of_pod=("4", "3")), 1000, 4000),
        "the pod's own status lacks what was granted": (
            resized([ONE], status_of(allocated="6", actual="5"), of_pod=(None, "3")),
            6000,
            6000,
        ),
        "the pod's own status lacks what it has": (
            resized([ONE], status_of(allocated="6", actual="5"), of_pod=("6", None)),
            6000,
            6000,
        ),
        "pod-level requests grow": (resized([ONE], of_pod=("3", "3.5"), **level("2")), 3500, 3500),
        "an infeasible resize of pod-level requests": (
            resized([ONE], of_pod=("3", "4"), infeasible=True, **level("10")),
            4000,
            4000,
        ),
        # Cases of this project.
        "one container grows, another one shrinks, with actual resources": (
            resized([ONE, TWO], status_of("c1", allocated="2", actual="2"), status_of("c2", allocated="1", actual="1")),
            4000,
            3000,
        ),
        "granted, and not applied yet": (resized([ONE], status_of(allocated="2")), 1000, 2000),
        "infeasible, and nothing is known of a second container": (
            resized([ONE, TWO], status_of(allocated="1", actual="1"), infeasible=True),
            3000,
            1000,
        ),
        "an init container that has ended counts by its status": (
            resized([ONE], init=[container("i", cpu="3")], of_init=[status_of("i", allocated="5", actual="5")]),
            3000,
            5000,
        ),
        "pod-level requests in the status only for another resource": (
            resized([ONE], of_pod=("3", "3"), resources={"requests": {"memory": "1Gi"}}),
            1000,
            3000,
        ),
    },
)
def test_resizes_of_a_pod_count_as_a_whole_since_1_37(made, before, since):
    assert cpu(requests.pod_requests(made, use_status=True)) == before
    assert cpu(requests.pod_requests(made, use_status=True, atomic=True)) == since
    assert requests.may_count_otherwise(made) or before == since
    info = PodInfo(made)
    again = info.with_atomic_resizes()
    assert (info.requested.get("cpu", 0), again.requested.get("cpu", 0)) == (before, since)
    assert again.with_atomic_resizes() is again


def test_a_pod_without_resizes_counts_the_same_since_1_37():
    info = PodInfo(resized([ONE, container("b")], status_of(allocated="1", actual="1"), status_of("b")))
    assert info.with_atomic_resizes() is info


def test_defaults_of_resized_containers_since_1_37():
    made = resized([ONE, container("b")], status_of(allocated="2", actual="2"))
    amounts = requests.pod_requests(made, use_status=True, atomic=True, missing={"cpu": 10**8})
    assert cpu(amounts) == 2100


def test_defaults_replace_missing_requests_but_not_zero():
    missing = {"cpu": 10**8}
    assert cpu(requests.pod_requests(pod([container(), container("b", cpu="0")]), missing=missing)) == 100


@pytest.mark.parametrize(
    ("name", "scalar", "extended"),
    [
        ("cpu", False, False),
        ("widgets", False, False),
        ("example.com/gpu", True, True),
        ("requests.example.com/gpu", False, False),
        ("kubernetes.io/batch", True, False),
        ("hugepages-2Mi", True, False),
        ("attachable-volumes-csi-x", True, False),
    ],
)
def test_resource_names(name, scalar, extended):
    assert requests.is_scalar(name) is scalar
    assert requests.is_extended(name) is extended


def test_counted_ignores_unknown_resources():
    amounts = requests.parse_amounts({"cpu": "1500m", "memory": "1Ki", "widgets": "3", "example.com/gpu": "2"})
    assert requests.counted(amounts) == {"cpu": 1500, "memory": 1024, "example.com/gpu": 2}


def limited(name, *, restart=None, **amounts):
    return {"name": name, "resources": {"limits": amounts}, **({"restartPolicy": restart} if restart else {})}


@cases(
    "made, milli_cpu",
    {
        "requests are no limits": (pod([container(cpu="1")]), 0),
        "containers add up": (pod([limited("a", cpu="1"), limited("b", cpu="250m")]), 1250),
        "maximum of init container with sidecar and containers": (
            pod([limited("a", cpu="1")], init=[limited("s", cpu="2", restart="Always"), limited("i", cpu="5")]),
            7000,
        ),
        "with overhead": (pod([limited("a", cpu="1")], overhead={"cpu": "1"}), 2000),
        "overhead alone is no limit": (pod([container()], overhead={"cpu": "1"}), 0),
        "pod level": (pod([limited("a", cpu="1")], resources={"limits": {"cpu": "3", "example.com/x": "1"}}), 3000),
    },
)
def test_limits(made, milli_cpu):
    amounts = requests.pod_limits(made)
    assert cpu(amounts) == milli_cpu
    assert "example.com/x" not in amounts
