"""Odd objects that kube-apiserver accepts, and so does the embedded server."""

from tests.support.tables import cases


@cases(
    "spec",
    {
        "comment": {"schedulerName": "my-custom-scheduler // a comment"},
        "long name": {"schedulerName": "My_Scheduler." * 30},
        "source behind a gate": {
            "volumes": [
                {
                    "name": "v",
                    "projected": {"sources": [{"secret": {"name": "s"}, "clusterTrustBundle": {"path": "p"}}]},
                }
            ]
        },
    },
)
async def test_pod_that_kube_apiserver_accepts_is_accepted(client, spec):
    body = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}], **spec}}
    created = await client.create("/api/v1/namespaces/default/pods", body)

    assert created["spec"]["schedulerName"] == spec.get("schedulerName", "default-scheduler")


async def test_template_may_have_any_owners_and_finalizers(client):
    metadata = {"labels": {"a": "b"}, "finalizers": ["x"], "ownerReferences": [{"name": "o"}]}
    template = {"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    created = await client.create(
        "/apis/apps/v1/namespaces/default/replicasets", {"metadata": {"name": "r"}, "spec": spec}
    )

    assert created["spec"]["template"]["metadata"]["finalizers"] == ["x"]
