"""The page of the demo's cluster, with the demo's scheduler."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from bayplan.answers.insight.insight import Insight
from bayplan.answers.snapshots import Snapshot
from bayplan.core.config import Catalog, KubeSchedulerConfiguration, load_plugins
from bayplan.core.config.profiles import profile_of_all
from bayplan.core.config.types import OUR_SCHEDULER_NAME
from bayplan.faces.asking.sources import ClusterSource
from bayplan.faces.cli.demo import stage
from bayplan.faces.ui.server import serving
from bayplan.running.client.client import Client


def serving_page(client: Client) -> AbstractAsyncContextManager[str]:
    """Serve the page of the demo's cluster in the context, which has the URL. It follows the cluster by watches."""
    plugins = load_plugins([str(stage.POLICY)])
    profile = profile_of_all(OUR_SCHEDULER_NAME, Catalog(plugins))
    insight = Insight(Snapshot(), KubeSchedulerConfiguration(profiles=[profile]), plugins)
    return serving(ClusterSource(client, "the demo's cluster"), insight)
