"""Random histories of a scheduler that decides pods in the order of their arrivals; bindings are seen in any order."""

import random
from datetime import UTC, datetime, timedelta

import msgspec

from bayplan.answers.backtest.running import SimulatedScheduler
from bayplan.answers.history import format as columns
from bayplan.answers.history.documents import document_of
from bayplan.answers.history.format import Row
from bayplan.answers.history.reading import History
from bayplan.answers.history.writing import write_history
from bayplan.answers.judging.node_orders import NodeOrders
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.objects import encode
from bayplan.core.config import parse_configuration
from bayplan.core.scheduling import decide
from bayplan.core.scheduling.sampling import feasible_nodes_to_find
from bayplan.testing.builders import make_node, make_pod, spread_over

BEGIN = datetime(2026, 3, 2, tzinfo=UTC)
VERSION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
DEFAULT, PACKING, OTHER = "default-scheduler", "packing", "somebody-else"
MOST = [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}]


def configuration(*, packs=False):
    """Two profiles; one of them packs. `packs`: both do."""
    profiles = [
        {"schedulerName": DEFAULT, "pluginConfig": MOST if packs else []},
        {"schedulerName": PACKING, "pluginConfig": MOST},
    ]
    return parse_configuration({**VERSION, "profiles": profiles})


class Recorded:
    """The rows of a history, in any order."""

    def __init__(self):
        self._rows = []

    def add(self, seconds, event, kind, namespace, name, obj=None, **more):
        document = None if obj is None else document_of(kind, msgspec.json.decode(encode(obj)))
        time = BEGIN + timedelta(seconds=seconds)
        if event in {columns.POD_ARRIVED, columns.NODE_ADDED}:
            more["created_utc"] = time
        key = "" if document is None else document.document
        row = Row(
            time,
            event,
            seconds == 0,
            kind.api_version,
            kind.kind,
            namespace,
            name,
            f"uid-{name}",
            document=key,
            **more,
        )
        self._rows.append((row, document))

    def write(self, folder):
        in_order = sorted(self._rows, key=lambda each: each[0].time_utc)
        end = in_order[-1][0].time_utc + timedelta(seconds=30)
        write_history(folder, in_order, source="out of order", begin=BEGIN, end=end)
        return History.open(str(folder))


def looked_at(rng, world, profile, decision):
    """The node that a scheduler chooses which looks at only some nodes, from any one on. Chance decides ties."""
    if decision.node is None or decision.scores is None:
        return decision.node
    table, scores = world.state.table, decision.scores
    totals = dict(zip(scores.rows.tolist(), scores.total.tolist(), strict=True))
    order = [row for row in rng.choice(NodeOrders(world.state).orders()).tolist() if row in totals]
    first, needed = rng.randrange(len(order)), feasible_nodes_to_find(profile, table.live_count)
    some = [order[(first + place) % len(order)] for place in range(min(needed, len(order)))]
    best = max(totals[row] for row in some)
    return table.names[rng.choice([row for row in some if totals[row] == best])]


def random_history(folder, seed, *, changing):
    """A history. `changing`: whether pods end and nodes come meanwhile, which a scheduler may know earlier or later."""
    rng, recorded = random.Random(seed), Recorded()
    world = SimulatedScheduler(configuration()).world(0)
    world.move({}, BEGIN)
    for number in range(rng.choice((2, 3, 5, 110))):
        node = make_node(f"node-{number}", cpu=rng.choice("468"), memory="32Gi", labels={"zone": f"z{number % 3}"})
        world.change(NODE, node.metadata.name, node)
        recorded.add(0, columns.NODE_ADDED, NODE, "", node.metadata.name, node)
    time, leaving = 10.0, []
    for number in range(rng.randint(2, 8)):
        time += rng.choice((0.001, 0.1, 0.3, 1.0, 4.0))
        for each in [each for each in leaving if each[0] <= time]:
            leaving.remove(each)
            world.change(POD, each[1], None)
        name, scheduler = f"pod-{number}", rng.choice((DEFAULT, DEFAULT, PACKING, OTHER))
        spread = [spread_over("zone", {"app": "a"}, hard=False)] if rng.random() < 0.3 else ()
        pod = make_pod(
            name, cpu=rng.choice(("500m", "1", "2")), labels={"app": "a"}, spread=spread, scheduler_name=scheduler
        )
        recorded.add(time, columns.POD_ARRIVED, POD, "default", name, pod.object)
        if scheduler == OTHER:
            node = rng.choice(sorted(world.state.table.row_of))
        else:
            profile = world.profiles[scheduler]
            node = looked_at(rng, world, profile, decide(profile, world.state, pod, random.Random(0)))
        if node is None:
            continue
        world.change(POD, pod.key, pod.on_node(node))
        bound = time + rng.choice((0.0, 0.1, 0.5, 2.0, 6.0))
        recorded.add(bound, columns.POD_BOUND, POD, "default", name, node=node)
        if changing and rng.random() < 0.3:
            ended = bound + rng.choice((0.1, 1.0, 5.0))
            leaving.append((ended, pod.key))
            recorded.add(ended, columns.POD_ENDED, POD, "default", name, reason="Succeeded")
        if changing and rng.random() < 0.1:
            node = make_node(f"more-{number}", cpu="8", memory="32Gi")
            world.change(NODE, node.metadata.name, node)
            recorded.add(time + 0.05, columns.NODE_ADDED, NODE, "", node.metadata.name, node)
    return recorded.write(folder)
