"""The dashboards and the alerts of the chart: they name metrics that the services have, and alerts fire in an incident.

Prometheus' own promtool evaluates the alerts on what the real collectors expose, minute by minute; see `incidents.py`.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.service.incidents import Incident, RecorderOfHistory, Replica, ShadowOfAnother, complaint
from tests.service.test_metrics_names import PAGE, all_measurements

from bayplan.answers.shadow.comparisons import ShadowOutcome
from bayplan.answers.snapshots.rights import REQUIRED
from bayplan.running.service.metrics.exposition import build_registry
from bayplan.running.service.watchdog import Watchdog

CHART = Path(__file__).parents[2] / "deploy" / "chart" / "bayplan"
WHAT = ("scheduler", "shadow", "recorder")
RULES = {what: CHART / "alerts" / f"{what}.yaml" for what in WHAT}
ALERTS = {
    rule["alert"]: rule
    for path in RULES.values()
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
}
PROMTOOL = shutil.which("promtool") or ""


@pytest.fixture
def exposed(clock):
    """The metrics of each service, with a sample of each: their names, and the values of their labels."""
    from tests.service.conftest import StillClock

    metrics, snapshot = all_measurements(StillClock())
    metrics.attempts["error", "default-scheduler"].observe(0.1)
    watchdog = Watchdog()
    watchdog.blocks["a plugin"] += 1
    shadow = ShadowOfAnother()
    for outcome in ShadowOutcome:
        shadow.compare(outcome, 1)
    shadow.guess("default-scheduler", "NodeResourcesFit.weight=2")
    registries = {
        "scheduler": build_registry(metrics, lambda: snapshot, watchdog),
        "shadow": shadow.registry,
        "recorder": RecorderOfHistory().registry,
    }
    found = {}
    for what, registry in registries.items():
        samples = [
            sample
            for family in text_string_to_metric_families(generate_latest(registry).decode())
            for sample in family.samples
        ]
        labels = {}
        for sample in samples:
            for label, value in sample.labels.items():
                labels.setdefault(label, set()).add(value)
        process = {"process_resident_memory_bytes", "process_cpu_seconds_total"}
        found[what] = {sample.name for sample in samples} | process, labels
    return found


def queries(value):
    """All queries in a dashboard, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if key in {"expr", "definition"}:
                yield inner
            else:
                yield from queries(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from queries(inner)


def check(query, exposed):
    """A query names metrics, labels and values of labels that there are."""
    known, labels = exposed
    names = set(re.findall(r"\b(?:scheduler|rest_client|process|bayplan|leader_election|kube)_[a-z_]+\b", query))
    assert names, query
    assert names <= known, query
    grouped = {name.strip() for group in re.findall(r"\b(?:by|on) \(([^)]*)\)", query) for name in group.split(",")}
    assert grouped <= labels.keys() | {"job", "instance"}, query
    for label, _, text in re.findall(r'(\w+)(=~|!~|=)"([^"$]*)"', query):
        assert set(text.split("|")) <= labels[label], query


@pytest.mark.parametrize("what", WHAT)
def test_a_dashboard_uses_metrics_that_there_are(what, exposed):
    found = list(queries(json.loads((CHART / "dashboards" / f"{what}.json").read_text())))
    assert len(found) >= 5
    for query in found:
        check(query, exposed[what])


@pytest.mark.parametrize("what", WHAT)
def test_alerts_use_metrics_that_there_are(what, exposed):
    for group in yaml.safe_load(RULES[what].read_text())["groups"]:
        for rule in group["rules"]:
            check(rule["expr"], exposed[what])
            assert rule["labels"].keys() == {"severity"}
            assert rule["annotations"].keys() == {"summary", "description"}


@pytest.mark.parametrize("what", WHAT)
def test_panels_do_not_overlap(what):
    dashboard = json.loads((CHART / "dashboards" / f"{what}.json").read_text())
    taken = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])


def test_the_page_has_every_alert():
    section = PAGE.partition("## Alerts")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE) == list(ALERTS)


def no_leader(clock):
    first, second = Replica(clock, "a"), Replica(clock, "b", leads=False)

    def act(minute):
        first.leads = minute < 5
        second.leads = minute >= 10
        return (first, second) if minute < 20 else ()

    return Incident((first, second), 30, act, {"BayplanHasNoLeader": {4: 0, 8: 1, 12: 0, 25: 1}})


def the_queue_grows(clock):
    leader, standby = Replica(clock, "a"), Replica(clock, "b", leads=False)

    def act(minute):
        leader.place(5)
        standby.active = 50 * minute  # a standby tries none of them
        leader.active = 0 if minute < 20 else 20 * (minute - 20)

    return Incident((leader, standby), 60, act, {"BayplanQueueGrows": {19: 0, 24: 0, 45: 1}})


def nothing_fits(clock):
    """The queue grows, and no pod is placed: more nodes are needed, which is no fault of the scheduler."""
    leader = Replica(clock)

    def act(minute):
        leader.active = 20 * minute

    return Incident((leader,), 40, act, {"BayplanQueueGrows": {39: 0}, "BayplanHasNoLeader": {39: 0}})


def an_event_is_missed(clock):
    replica = Replica(clock)

    def act(minute):
        replica.place(3)
        replica.place(1 if minute == 10 else 0, flushed=True)

    return Incident((replica,), 80, act, {"BayplanMissesEvents": {9: 0, 12: 1, 75: 0}})


def attempts_fail(clock):
    replica = Replica(clock)

    def act(minute):
        replica.place(20)
        replica.fail(4 if minute >= 10 else 0)

    return Incident((replica,), 25, act, {"BayplanAttemptsFail": {9: 0, 20: 1}, "BayplanBindsSlowly": {20: 0}})


def bindings_are_slow(clock):
    replica = Replica(clock)

    def act(minute):
        replica.place(20, 3.0 if minute >= 10 else 0.05)

    return Incident((replica,), 30, act, {"BayplanBindsSlowly": {9: 0, 25: 1}, "BayplanAttemptsFail": {25: 0}})


def a_plugin_blocks(clock):
    replica = Replica(clock)

    def act(minute):
        replica.watchdog.blocks["Filter of tier"] += minute == 20

    return Incident((replica,), 50, act, {"BayplanIsBlocked": {19: 0, 21: 1, 45: 0}})


def events_are_dropped(clock):
    replica = Replica(clock)

    def act(minute):
        replica.dropped += 100 * (minute == 5)

    return Incident((replica,), 30, act, {"BayplanDropsEvents": {4: 0, 7: 1, 25: 0}})


def a_recording_ends(clock):
    replica, other = Replica(clock, "a"), Replica(clock, "b")

    def act(minute):
        replica.recording = (minute < 5, 1000)

    return Incident((replica, other), 10, act, {"BayplanRecordingHasAGap": {4: 0, 8: 1}})


def a_shadow_disagrees(clock):
    shadow = ShadowOfAnother()

    def act(minute):
        shadow.compare(ShadowOutcome.SAME, 10)
        shadow.compare(ShadowOutcome.BEST, 5)
        shadow.compare(ShadowOutcome.OTHER, 5 if minute >= 20 else 0)

    return Incident((shadow,), 60, act, {"BayplanShadowDisagrees": {19: 0, 45: 1}, "BayplanShadowIsLate": {45: 0}})


def a_shadow_is_late(clock):
    shadow = ShadowOfAnother()

    def act(minute):
        shadow.follower.late = 120.0 if minute >= 3 else 0.0

    return Incident((shadow,), 12, act, {"BayplanShadowIsLate": {2: 0, 10: 1}, "BayplanShadowDisagrees": {10: 0}})


def a_watch_is_lost(clock):
    recorder = RecorderOfHistory()

    def act(minute):
        missed = recorder.recorder.progress.missed
        if minute == 5:
            missed.update(REQUIRED)
        if minute == 15:
            missed.clear()
        return () if minute >= 25 else None

    return Incident((recorder,), 35, act, {"BayplanHistoryHasAGap": {4: 0, 9: 1, 17: 0, 34: 1}})


def the_disk_is_full(clock):
    recorder = RecorderOfHistory()

    def act(minute):
        recorder.recorder.problem = "No space left on device" if minute >= 5 else ""

    return Incident((recorder,), 10, act, {"BayplanHistoryHasAGap": {4: 0, 9: 1}, "BayplanHistoryHasMoreGaps": {9: 0}})


def the_watch_is_lost_again_and_again(clock):
    recorder = RecorderOfHistory()

    def act(minute):
        recorder.recorder.progress.gaps += minute in {5, 10, 15, 20}

    return Incident((recorder,), 30, act, {"BayplanHistoryHasMoreGaps": {12: 0, 22: 1}})


INCIDENTS = {
    "no leader": no_leader,
    "the queue grows": the_queue_grows,
    "nothing fits": nothing_fits,
    "an event is missed": an_event_is_missed,
    "attempts fail": attempts_fail,
    "bindings are slow": bindings_are_slow,
    "a plugin blocks": a_plugin_blocks,
    "events are dropped": events_are_dropped,
    "a recording ends": a_recording_ends,
    "a shadow disagrees": a_shadow_disagrees,
    "a shadow is late": a_shadow_is_late,
    "a watch is lost": a_watch_is_lost,
    "the disk is full": the_disk_is_full,
    "the watch is lost again and again": the_watch_is_lost_again_and_again,
}


@pytest.mark.skipif(not PROMTOOL, reason="there is no promtool on the PATH")
@pytest.mark.parametrize("name", INCIDENTS)
def test_alerts_fire_in_an_incident(name, clock, tmp_path):
    assert complaint(PROMTOOL, RULES.values(), INCIDENTS[name](clock), tmp_path) == ""


def test_every_alert_has_an_incident(clock):
    expected = [alert for make in INCIDENTS.values() for alert in make(clock).alerts.items()]
    assert {alert for alert, minutes in expected if any(minutes.values())} == ALERTS.keys()
