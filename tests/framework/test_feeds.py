"""Feeds: objects that plugins put, as decisions read them."""

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.plugin import CustomObject


def feed():
    handle = OfflineHandle(ClusterState())
    return handle, handle.feed("reports.v1.example.com", "Report")


def test_what_is_put_is_an_object_of_the_feeds_kind():
    handle, made = feed()
    made.put("one", {"value": 3})
    assert made.get("one") == {
        "apiVersion": "example.com/v1",
        "kind": "Report",
        "metadata": {"name": "one", "uid": "one"},
        "value": 3,
    }
    assert handle.objects("reports.v1.example.com") is made.objects
    assert handle.feed("reports.v1.example.com", "Report") is made
    made.remove("one")
    made.remove("another")
    assert made.get("one") is None


def test_an_object_of_a_snapshot_is_found_by_its_name():
    _, made = feed()
    made.objects.set("default/one", CustomObject(metadata={"name": "one"}))
    assert made.get("one") is made.objects["default/one"]


def test_where_a_scheduler_runs_changes_go_through_its_sink():
    class Sink:
        taken = ()

        def put(self, key, new):
            self.taken += ((key, new["value"]),)

        def removed(self, key):
            self.taken += (key,)

    _, made = feed()
    made.put("one", {"value": 1})
    made.sink = sink = Sink()
    made.put("one", {"value": 2})
    made.remove("one")
    assert sink.taken == (("one", 2), "one")
    assert made.get("one")["value"] == 1


def test_no_api_server_is_asked_for_what_is_fed():
    handle, made = feed()
    handle.objects("Node")
    assert {kind.kind for kind in handle.watched} == {"Node", made.kind.kind}
    assert {kind.kind for kind in handle.served} == {"Node"}
