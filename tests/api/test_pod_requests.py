from __future__ import annotations

import pytest
from lightkube.models.core_v1 import Pod

from bayplan.api import requests
from bayplan.api.objects import convert


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


@pytest.mark.parametrize(
    ("made", "milli_cpu"),
    [
        pytest.param(pod([container()]), 0, id="nothing"),
        pytest.param(pod([container(cpu="1"), container("b", cpu="250m")]), 1250, id="containers add up"),
        pytest.param(
            pod([container(cpu="1")], init=[container("i", cpu="3")]),
            3000,
            id="maximum of init container and containers",
        ),
        pytest.param(
            pod([container(cpu="1")], init=[container("i", cpu="3"), container("j", cpu="2")]),
            3000,
            id="maximum of two init containers",
        ),
        pytest.param(
            pod([container(cpu="1")], init=[container("s", cpu="2", restart="Always")]), 3000, id="a sidecar is added"
        ),
        pytest.param(
            pod([container(cpu="1")], init=[container("s", cpu="2", restart="Always"), container("i", cpu="5")]),
            7000,
            id="an init container runs with the sidecars before it",
        ),
        pytest.param(
            pod([container(cpu="1")], init=[container("i", cpu="5"), container("s", cpu="2", restart="Always")]),
            5000,
            id="an init container doesn't run with the sidecars after it",
        ),
        pytest.param(pod([container(cpu="1")], overhead={"cpu": "100m"}), 1100, id="overhead"),
        pytest.param(
            pod([container(cpu="1")], resources={"requests": {"cpu": "4"}}), 4000, id="pod level replaces the sum"
        ),
        pytest.param(
            pod([container(cpu="1")], resources={"requests": {"cpu": "4"}}, overhead={"cpu": "1"}),
            5000,
            id="overhead is added to pod level requests",
        ),
        pytest.param(
            pod([container(cpu="1")], resources={"limits": {"cpu": "4"}}),
            1000,
            id="pod level limits don't replace requests",
        ),
    ],
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


@pytest.mark.parametrize(
    ("made", "milli_cpu"),
    [
        pytest.param(resizing("1", "1"), 2000, id="growing: desired"),
        pytest.param(resizing("3", "2"), 3000, id="shrinking: actual"),
        pytest.param(resizing("1", "4"), 4000, id="allocated"),
        pytest.param(resizing("1", "1", infeasible=True), 1000, id="infeasible: desired doesn't count"),
    ],
)
def test_pending_resize_counts_only_with_status(made, milli_cpu):
    assert cpu(requests.pod_requests(made, use_status=True)) == milli_cpu
    assert cpu(requests.pod_requests(made)) == 2000


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


@pytest.mark.parametrize(
    ("made", "milli_cpu"),
    [
        pytest.param(pod([container(cpu="1")]), 0, id="requests are no limits"),
        pytest.param(pod([limited("a", cpu="1"), limited("b", cpu="250m")]), 1250, id="containers add up"),
        pytest.param(
            pod([limited("a", cpu="1")], init=[limited("s", cpu="2", restart="Always"), limited("i", cpu="5")]),
            7000,
            id="maximum of init container with sidecar and containers",
        ),
        pytest.param(pod([limited("a", cpu="1")], overhead={"cpu": "1"}), 2000, id="with overhead"),
        pytest.param(pod([container()], overhead={"cpu": "1"}), 0, id="overhead alone is no limit"),
        pytest.param(
            pod([limited("a", cpu="1")], resources={"limits": {"cpu": "3", "example.com/x": "1"}}),
            3000,
            id="pod level",
        ),
    ],
)
def test_limits(made, milli_cpu):
    amounts = requests.pod_limits(made)
    assert cpu(amounts) == milli_cpu
    assert "example.com/x" not in amounts
