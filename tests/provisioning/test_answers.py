"""Provisioning requests in a complete scheduler, on an API server in memory and in virtual time."""

import pytest

from bayplan.core.api.kinds import PRIORITY_CLASS


async def test_room_is_found_and_held(here):
    await here.story.add_node("a")
    await here.story.add_node("b")
    await here.ask("train", count=3)
    assert await here.answer("train") == ("Provisioned", "True", "CapacityIsFound")
    assert (await here.conditions("train"))["Accepted"][:2] == ("True", "Accepted")
    assert sum(here.held().values()) == 3
    await here.story.attempt("one", "two")
    assert len(here.story.nodes()) == 1  # a node for one of them is left


async def test_too_little_room_names_the_shortfall_and_is_asked_again_when_a_pod_goes(here):
    await here.story.add_node("a")
    await here.story.attempt("other")
    await here.ask("train", count=2)
    assert await here.answer("train") == ("Provisioned", "False", "CapacityIsNotFound")
    short = "1 of 2 members fit; the next one: 0/1 nodes are available: 1 Insufficient cpu."
    assert (await here.message("train")).startswith(short)
    assert here.held() == {}
    await here.story.delete("other")
    await here.settle()
    assert await here.answer("train") == ("Provisioned", "True", "CapacityIsFound")
    assert here.held() == {"a": 2}


async def test_an_open_request_costs_nothing_while_nothing_changes(here):
    await here.story.add_node("a", cpu="1")
    await here.ask("train", count=2)
    decisions = here.story.scheduler.decisions
    await here.settle(3600)
    assert here.story.scheduler.decisions == decisions


async def test_all_templates_of_a_request_have_room_together_or_none(here):
    await here.story.add_node("a", cpu="3")
    await here.add_template("driver", "1")
    await here.add_template("worker", "1")
    await here.add("fits", ("driver", 1), ("worker", 2))
    await here.settle()
    await here.add("later", ("driver", 1))
    await here.settle()
    assert await here.answer("fits") == ("Provisioned", "True", "CapacityIsFound")
    assert await here.answer("later") == ("Provisioned", "False", "CapacityIsNotFound")
    assert here.held() == {"a": 3}
    await here.delete("fits")
    await here.settle()
    assert await here.answer("later") == ("Provisioned", "True", "CapacityIsFound")
    assert here.held() == {"a": 1}


APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "train"}}}
        ]
    }
}
SPREAD = [
    {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "train"}},
    }
]


@pytest.mark.parametrize(
    ("template", "count", "expected"),
    [
        pytest.param({"affinity": APART}, 2, "True", id="apart"),
        pytest.param({"affinity": APART}, 3, "False", id="more than nodes"),
        pytest.param({"topologySpreadConstraints": SPREAD}, 4, "True", id="spread"),
        pytest.param({"nodeSelector": {"zone": "one"}}, 4, "False", id="selected"),
    ],
)
async def test_the_answer_counts_pods_of_the_request_among_each_other(here, template, count, expected):
    for name, zone in (("a", "one"), ("b", "two")):
        await here.story.add_node(name, cpu="3", zone=zone, **{"kubernetes.io/hostname": name})
    await here.ask("train", count=count, labels={"app": "train"}, **template)
    assert (await here.answer("train"))[1] == expected


async def test_of_two_requests_the_one_of_higher_priority_has_the_room(here):
    await here.story.create(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
    await here.story.add_node("a", cpu="1")
    await here.story.attempt("first", priorityClassName="high")
    await here.ask("low", count=1)
    await here.ask("high", count=1, priorityClassName="high")
    await here.story.delete("first")
    await here.settle()
    assert await here.answer("high") == ("Provisioned", "True", "CapacityIsFound")
    assert await here.answer("low") == ("Provisioned", "False", "CapacityIsNotFound")


# Preemption


async def test_without_preemption_the_message_says_whom_it_would_evict(here):
    await here.story.create(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
    await here.story.add_node("a")
    await here.story.attempt("one", "two")
    await here.ask("train", count=2, priorityClassName="high")
    assert await here.answer("train") == ("Provisioned", "False", "CapacityIsNotFound")
    assert (await here.message("train")).endswith("Preemption would evict 2 pods: default/one, default/two.")
    assert set(here.story.nodes()) == {"one", "two"}
    await here.story.attempt("third")
    assert not here.story.scheduler.state.nominations.nodes


async def test_with_preemption_pods_of_lower_priority_go(here):
    await here.story.create(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
    await here.story.add_node("a")
    await here.story.attempt("one", "two")
    await here.ask("train", count=1, priorityClassName="high", preemption="true")
    await here.settle()
    assert await here.answer("train") == ("Provisioned", "True", "CapacityIsFound")
    assert len(here.story.evicted()) == 1
    assert here.held() == {"a": 1}


async def test_held_room_goes_to_a_pod_of_higher_priority_and_is_revoked(here):
    await here.story.create(PRIORITY_CLASS, {"metadata": {"name": "high"}, "value": 1000})
    await here.story.add_node("a")
    await here.ask("train", count=2)
    await here.story.attempt("urgent", priorityClassName="high")
    assert await here.answer("train") == ("CapacityRevoked", "True", "Preempted")
    assert "pod default/urgent" in await here.message("train", "CapacityRevoked")
    assert here.story.nodes() == {"urgent": "a"}
    assert here.held() == {}


# Ends


async def test_room_is_held_for_ten_minutes(here):
    await here.story.add_node("a")
    await here.ask("train", count=2)
    await here.settle(500)
    assert here.held() == {"a": 2}
    await here.settle(100)
    assert await here.answer("train") == ("BookingExpired", "True", "CapacityReservationTimeExpired")
    assert here.held() == {}
    assert await here.details("train") == {}


async def test_a_request_says_how_long_room_is_held(here):
    await here.story.add_node("a")
    await here.ask("train", count=2, bookingSeconds="3600")
    await here.settle(3500)
    assert here.held() == {"a": 2}
    await here.settle(100)
    assert here.held() == {}


async def test_a_request_is_tried_for_as_long_as_it_says(here):
    await here.story.add_node("a", cpu="1")
    await here.ask("train", count=2, ValidUntilSeconds="120")
    assert await here.answer("train") == ("Provisioned", "False", "CapacityIsNotFound")
    await here.settle(120)
    assert await here.answer("train") == ("Failed", "True", "Expired")
    assert "1 of 2 members fit" in await here.message("train", "Failed")
    await here.story.add_node("b")
    await here.settle()
    assert here.held() == {}


async def test_a_request_without_retries_fails_at_once(here):
    await here.story.add_node("a", cpu="1")
    await here.ask("train", count=2, noRetry="true")
    assert await here.answer("train") == ("Failed", "True", "CapacityIsNotFound")


async def test_room_that_is_lost_with_its_node_is_revoked(here):
    await here.story.add_node("a")
    await here.story.add_node("b")
    await here.ask("train", count=4)
    await here.remove_node("a")
    assert await here.answer("train") == ("CapacityRevoked", "True", "NodeDeleted")
    assert await here.message("train", "CapacityRevoked") == "Node a was deleted, on which room for 2 pods was held."
    assert here.held() == {}


# Bad input: one clear line each, and the others are answered


@pytest.mark.parametrize(
    ("template", "request_", "message"),
    [
        pytest.param(None, {}, "there is no PodTemplate bad in namespace default", id="no template"),
        pytest.param(
            {"cpu": None},
            {},
            "PodTemplate bad: its containers request no resources; set resources.requests",
            id="no resources",
        ),
        pytest.param(
            {"by": "other"},
            {},
            "PodTemplate bad: no profile here is for scheduler other, only for default-scheduler",
            id="other scheduler",
        ),
        pytest.param(
            {"priorityClassName": "none"},
            {},
            "PodTemplate bad: no PriorityClass with name none was found",
            id="no class",
        ),
        pytest.param(
            {}, {"count": 100_000}, "it asks for 100000 pods; at most 10000 are answered together", id="too many"
        ),
        pytest.param(
            {},
            {"bookingSeconds": "-1"},
            "spec.parameters: parameter bookingSeconds: expected a number of seconds such as 600, got '-1'",
            id="negative",
        ),
        pytest.param(
            {},
            {"ValidUntilSeconds": "9" * 20},
            f"spec.parameters: parameter ValidUntilSeconds: expected a number of seconds such as 600, got '{'9' * 20}'",
            id="forever",
        ),
        pytest.param(
            {},
            {"preemption": "yes"},
            'spec.parameters: parameter preemption: expected "true" or "false", got \'yes\'',
            id="switch",
        ),
    ],
)
async def test_what_can_not_be_asked_fails_with_one_clear_line(here, template, request_, message):
    await here.story.add_node("a")
    if template is not None:
        await here.add_template("bad", **template)
    count = request_.pop("count", 1)
    await here.add("bad", ("bad", count), **request_)
    await here.ask("good", count=2)
    assert await here.answer("bad") == ("Failed", "True", "FailedToCreatePods")
    assert await here.message("bad", "Failed") == message
    assert await here.answer("good") == ("Provisioned", "True", "CapacityIsFound")


async def test_a_template_may_come_after_its_request(here):
    await here.story.add_node("a")
    await here.add("train", ("late", 2))
    await here.settle(5)
    assert await here.answer("train") is None
    await here.add_template("late")
    await here.settle()
    assert await here.answer("train") == ("Provisioned", "True", "CapacityIsFound")


async def test_a_class_that_nobody_serves_is_left_alone(here, caplog):
    caplog.set_level("INFO", "bayplan.running.provisioning.opening")
    await here.story.add_node("a")
    await here.ask("theirs", class_name="check-capacity.autoscaling.x-k8s.io")
    assert await here.conditions("theirs") == {}
    (line,) = [line for line in caplog.messages if "theirs" in line]
    assert line.endswith("its class check-capacity.autoscaling.x-k8s.io is not check-capacity.bayplan.dev")


async def test_many_requests_wait_for_their_turn(here, monkeypatch):
    monkeypatch.setattr("bayplan.running.provisioning.desk.MOST_PODS", 3)
    await here.add_template("worker")
    for number in range(4):
        await here.add(f"r-{number}", ("worker", 2))
    await here.settle()
    assert [await here.answer(f"r-{number}") is None for number in range(4)] == [False, True, True, True]
    await here.story.add_node("a", cpu="8")
    await here.settle()
    assert [(await here.answer(f"r-{number}"))[1] for number in range(4)] == ["True"] * 4


async def test_limits_count_as_requests_as_the_api_server_defaults_them(here):
    await here.story.add_node("a", cpu="2")
    limited = {"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}
    await here.ask("train", count=2, containers=[limited])
    assert await here.answer("train") == ("Provisioned", "False", "CapacityIsNotFound")


@pytest.mark.scheduler(gates=("GenericWorkload", "GangScheduling", "TopologyAwareWorkloadScheduling"))
async def test_the_pod_group_of_a_template_says_where_all_its_pods_have_to_be(here):
    for number, rack in enumerate(("r1", "r1", "r2")):
        await here.story.add_node(f"n-{number}", rack=rack)
    await here.story.add_group("crew", 5, "rack")
    await here.ask("large", count=5, schedulingGroup={"podGroupName": "crew"})
    await here.ask("small", count=4, schedulingGroup={"podGroupName": "crew"})
    assert await here.answer("large") == ("Provisioned", "False", "CapacityIsNotFound")
    assert "4 of 5 members fit in r1, the best of 2 placements" in await here.message("large")
    assert here.held() == {"n-0": 2, "n-1": 2}
