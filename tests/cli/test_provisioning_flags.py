"""The options about provisioning requests, and the objects that `bayplan manifests` prints for them."""

import pytest
import yaml
from click.testing import CliRunner

from bayplan.faces.cli.manifests import manifests
from bayplan.faces.cli.provision import provision
from bayplan.faces.cli.run import run

IMAGE = ("--image", "registry.example/bayplan:1")


@pytest.mark.parametrize(
    ("command", "arguments", "message"),
    [
        (run, ("--provisioning-class", "a.b"), "use --provisioning-requests, too"),
        (run, ("--provisioning-requests", "--provisioning-class", "A B"), "is not the name of a class such as"),
        (provision, ("--provisioning-class", ""), "is not the name of a class such as"),
        (provision, ("--config", "/none.yaml"), "/none.yaml"),
        (
            provision,
            ("--kubeconfig", "/none.yaml", "--pod-max-in-unschedulable-pods-duration", "0s"),
            "bayplan provision: ",
        ),
        (manifests, (*IMAGE, "--provision", "--shadow"), "exclude each other"),
    ],
    ids=range(6),
)
def test_what_can_not_be_meant_is_one_line(command, arguments, message):
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2, result.output
    assert message in result.output
    assert "bayplan run" not in result.output or command is run


def printed(*arguments):
    result = CliRunner().invoke(manifests, [*IMAGE, *arguments])
    assert result.exit_code == 0, result.output
    return {(each["kind"], each["metadata"]["name"]): each for each in yaml.safe_load_all(result.stdout)}


def granted(found, name):
    """`verb resource.group` of a ClusterRole."""
    return {
        f"{verb} {resource}.{group}".rstrip(".")
        for rule in found["ClusterRole", f"{name}:provisioning"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_a_scheduler_that_answers_requests_has_one_more_role():
    found, usual = printed("--provisioning-requests"), printed()
    more = found.keys() - usual.keys()
    assert more == {(kind, "bayplan-scheduler:provisioning") for kind in ("ClusterRole", "ClusterRoleBinding")}
    writes = {each for each in granted(found, "bayplan-scheduler") if each.split()[0] not in {"list", "watch"}}
    assert writes == {"patch provisioningrequests/status.autoscaling.x-k8s.io"}
    (container,) = found["Deployment", "bayplan-scheduler"]["spec"]["template"]["spec"]["containers"]
    assert "--provisioning-requests" in container["args"]


def test_provision_can_bind_no_pods_and_has_a_lease_of_its_own(tmp_path):
    config = tmp_path / "scheduler.yaml"
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config.write_text(yaml.safe_dump(document))
    for arguments in ((), ("--config", str(config))):
        found = printed("--provision", *arguments)
        assert not [name for kind, name in found if kind == "ClusterRoleBinding" and "scheduler" in name]
        assert not [each for each in granted(found, "bayplan-provision") if "binding" in each or "secrets" in each]
        lease = next(
            each for (kind, name), each in found.items() if (kind, name) == ("Role", "bayplan-provision:lease")
        )
        assert lease["rules"][0]["resourceNames"] == ["bayplan-provision"]
        (container,) = found["Deployment", "bayplan-provision"]["spec"]["template"]["spec"]["containers"]
        assert container["args"][0] == "provision"
        assert "--leader-elect-resource-name=bayplan-provision" in container["args"]
