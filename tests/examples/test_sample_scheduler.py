import runpy

from playground import EXAMPLES, manifest
from tests.support.tables import cases

from bayplan.core.config import load_configuration, load_plugins
from bayplan.testing import check_contract

EXAMPLE = str(EXAMPLES / "sample_scheduler.py")
CONFIGURATION = str(EXAMPLES / "sample-scheduler-config.yaml")
WAYS = {
    "as a plugin": ["-m", "bayplan", "run", "--secure-port=0", "--config", CONFIGURATION, "--plugin", EXAMPLE, "-v"],
    "alone": [EXAMPLE],
}


@cases("command", WAYS)
async def test_plugin_logs_pods_of_its_scheduler_only(playground, command):
    observer = playground.observer
    other = manifest("nginx.yaml", "another-scheduler")[0]
    other["metadata"]["name"] = "other"
    await playground.create(other, *manifest("nginx.yaml", "sample-scheduler"))
    async with playground.running(*command) as output:
        await observer.until(lambda: sum(map(bool, map(observer.node_of, observer.pods))) == 3)
        bound = {key: observer.node_of(key) for key in observer.pods if observer.node_of(key)}
        for key, node in bound.items():
            await observer.until(lambda line=f"pod {key} is bound to {node}\n": line in output)
            assert f"pre filter called for pod {key}\n" in output
        assert "default/other" not in output
        assert "favoriteColor='#326CE5', favoriteNumber=7, thanksTo='thockin'" in output


def test_configuration_enables_the_plugin_at_two_points():
    (profile,) = load_configuration(EXAMPLES / "sample-scheduler-config.yaml").profiles
    assert profile.schedulerName == "sample-scheduler"
    for point in ("preFilter", "postBind"):
        assert [plugin.name for plugin in getattr(profile.plugins, point).enabled] == ["sample"]


def test_plugin_keeps_the_contract():
    (plugin,) = load_plugins([EXAMPLE])
    check_contract(plugin, skip=["exercise"])  # it rejects nothing
    assert runpy.run_path(EXAMPLE)["SampleArguments"]().thanksTo == ""
