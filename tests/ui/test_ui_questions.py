"""The pages of questions with a form: their answers are those of the commands, with links."""

import re
from urllib.parse import quote

import pytest
from rich.columns import Columns
from rich.table import Table
from rich.text import Text
from served_page import Page, node, page_of, pod, served, served_objects, small_cluster
from tests.support.tables import cases

from bayplan.answers.insight.answers import Stopped
from bayplan.faces.asking.sources import FileSource
from bayplan.faces.ui.answer_parts import Cell, Grid, TextLine, parts_of
from bayplan.faces.ui.questions_page import QUESTIONS
from bayplan.insight import Insight, Snapshot

WEB = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default", "uid": "d", "ownerReferences": []},
    "spec": {
        "replicas": 3,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}]},
        },
    },
}

ANSWERS = {
    "check": (
        "check?asked=yes&manifests="
        + quote("{apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: []}}"),
        ["spec.containers", "Required value"],
        [],
    ),
    "check of a large pod": (
        "check?asked=yes&manifests="
        + quote(
            "{apiVersion: v1, kind: Pod, metadata: {name: large}, spec: {containers: [{name: c, image: i, "
            "resources: {requests: {cpu: 90, memory: 1Gi}}}]}}"
        ),
        ["1 error; 0 of 1 pod of 1 object would be placed", "pod default/large: pending", "next:"],
        [],
    ),
    "usage": ("usage", ["Namespace Pods Pending Cpu default 2 2 3.5 (19%)"], []),
    "usage of a namespace": ("usage?namespace=other", ["there are no pods"], []),
    "scale up": ("scale-up?asked=yes", ["2 pods of the cluster would stay pending"], []),
    "scale up of no pool": ("scale-up?asked=yes&pools=none", ["there is no pool none"], []),
    "when do all start": ("when?asked=yes", ["0 of 2 pending pods will start", "run times are known of 0%"], []),
    "when does a pod start": ("when?asked=yes&what=big-0", ["pod default/big-0 never starts", "Insufficient cpu"], []),
    "when, with durations": (
        "when?asked=yes&what=big-0&durations=pod/web-0:+30m",
        ["run times are known of 25%", "1 by durations"],
        [],
    ),
    "when does nothing start": ("when?asked=yes&what=job/none", ["there is no job default/none"], []),
    "when, with durations that are none": ("when?asked=yes&durations=5", ["expected durations by workload"], []),
    "when, with an unknown autoscaler": (
        "when?asked=yes&autoscaler=magic",
        ["magic: expected one of none, cluster-autoscaler, karpenter"],
        [],
    ),
    "capacity of a deployment": (
        "capacity?asked=yes&like=deployment/web",
        ["1 x deployment web-copy fits", "NodeResourcesFit Insufficient cpu", "Node Pods"],
        ["/nodes/node-b2"],
    ),
    "capacity of a pod": ("capacity?asked=yes&like=web-1", ["6 x pod web-1-copy fit"], []),
    "capacity of nothing": ("capacity?asked=yes&like=deployment/none", ["there is no deployment default/none"], []),
    "capacity of a node": ("capacity?asked=yes&like=node/a", ["node/a: expected TYPE/NAME, as in deployment/web"], []),
    "capacity of a namespace": ("capacity?asked=yes&like=web&namespace=b", ["there is no pod b/web"], []),
    "drain": (
        "drain?asked=yes&nodes=node-a1&force=yes",
        ["1 node drained: 1 pod deleted", "default/web-0"],
        ["/nodes/node-a1"],
    ),
    "drain without a flag": ("drain?asked=yes&nodes=node-a1,+node-b1", ["refused", "--force"], []),
    "drain of nothing": ("drain?asked=yes&nodes=+", ["expected the names of nodes"], []),
    "drain of markup": ("drain?asked=yes&nodes=%3Cscript%3E", ["there is no node <script>"], []),
    "shrink": ("shrink?asked=yes&force=yes", ["node-a2"], ["/nodes/node-a2"]),
    "shrink of some": ("shrink?asked=yes&selector=disk%3Dnone", ["0 of 0 nodes"], []),
    "upgrade preview": ("upgrade-preview?asked=yes", ["from Kubernetes 1.36 to 1.37: nothing changes"], []),
    "upgrade preview of a namespace": (
        "upgrade-preview?asked=yes&to=1.37&namespace=other",
        ["from Kubernetes 1.36 to 1.37: nothing changes"],
        [],
    ),
    "upgrade preview of an unknown version": (
        "upgrade-preview?asked=yes&to=1.99",
        ["unknown version '1.99': expected one of 1.36, 1.37"],
        [],
    ),
    "shrink of a wrong selector": ("shrink?asked=yes&selector=a+b+c", ["selector 'a b c': "], []),
}


@cases("path, texts, links", ANSWERS)
async def test_question_is_answered(path, texts, links):
    page = await page_of(f"/questions/{path}", *small_cluster(), WEB)
    for text in texts:
        assert text in page.text
    assert set(links) <= page.links.keys()
    assert page.unlabelled == []


IMAGES = {"status": {"images": [{"names": ["model:v1"], "sizeBytes": 900 * 2**20}]}}
PRICED = [
    node("a", cpu="1", labels={"karpenter.sh/nodepool": "batch"}),
    node("b", cpu="1", labels={"karpenter.sh/nodepool": "web"}),
    *(pod(f"p{number}", "900m") for number in range(4)),
]


async def test_scale_up_takes_prices_and_a_limit_of_nodes():
    prices = "batch:+2%0Aweb:+0.5"
    page = await page_of(f"/questions/scale-up?asked=yes&prices={prices}", *PRICED)
    assert "2 nodes of pool web" in page.text
    assert "1.00" in page.text
    prices = "batch:+0.25%0Aweb:+0.5"
    page = await page_of(f"/questions/scale-up?asked=yes&prices={prices}&most=1&pools=batch", *PRICED)
    assert "1 node of pool batch in zone-a would be enough for 1 of 2 pods" in page.text


WRONG_FIELDS = {
    "no number": ("most=many", "most", "many: expected a number from 1 to 5,000"),
    "no node": ("most=0", "most", "0: expected a number from 1 to 5,000"),
    "more nodes than may be asked for": ("most=5001", "most", "5001: expected a number"),
    "a long number": ("most=" + "9" * 30, "most", "expected a number"),
    "a price that is none": ("prices=web:+dear", "prices", "prices: web: 'dear' is no price: expected dollars"),
    "prices that are no mapping": ("prices=0.5", "prices", "prices: expected prices for an hour by instance type"),
    "prices that are no YAML": ("prices=web:+[", "prices", "prices, document 1 (line 1): not valid YAML"),
    "two documents": ("prices=a:+1%0A---%0Aa:+2", "prices", "prices has 2 documents: expected one"),
    "an unknown pool": ("pools=none&most=7", "pools", "there is no pool none"),
}


@cases("query, field, message", WRONG_FIELDS)
async def test_wrong_field_is_marked_and_says_why_beside_it(query, field, message):
    async with served_objects(*PRICED) as visitor:
        text = await visitor.get(f"/questions/scale-up?asked=yes&{query}")
    assert Page(text).text.count(message) == 1
    (marked,) = re.findall(r'<[^>]* name="(\w+)"[^>]* aria-invalid="true" aria-describedby="problem"', text)
    assert marked == field
    after = text.partition(f'name="{field}"')[2]
    assert "<label" not in after.partition('<p id="problem"')[0]
    assert message.split("'")[0] in after


async def test_problem_of_no_field_stands_above_the_answer():
    async with served_objects(*small_cluster()) as visitor:
        text = await visitor.get("/questions/shrink?asked=yes&selector=a+b+c")
    assert "aria-invalid" not in text
    assert text.index("</form>") < text.index('<p id="problem"')


MODEL = {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "m", "image": {"reference": "model:v1"}}]}


async def test_upgrade_preview_links_the_pods_that_are_decided_differently():
    small, large = node("small"), node("large")
    large["status"] |= IMAGES["status"]
    serve = pod("serve", "100m", **MODEL)
    page = await page_of("/questions/upgrade-preview?asked=yes&to=1.37", small, large, serve)
    assert "from Kubernetes 1.36 to 1.37: 1 pod decided differently" in page.text
    assert "ImageVolumesInImageLocality" in page.text
    assert "/pods/default/serve" in page.links
    assert page.unlabelled == []


async def test_question_that_may_take_long_waits_for_its_form():
    async with served_objects(*small_cluster()) as visitor:
        every = await visitor.page("/questions")
        for name, question in QUESTIONS.items():
            assert f"/questions/{name}" in every.links
            page = await visitor.page(f"/questions/{name}")
            assert ("table" in page.counts) is question.quick
        wrong = await visitor.page("/questions/none", status=404)
    assert f"There is no question none; there is {', '.join(QUESTIONS)}." in wrong.text


async def test_question_that_takes_too_long_says_so():
    nodes = [node(f"n{number}") for number in range(50)]
    pods = [pod(f"p{number}", "100m", node=f"n{number % 50}") for number in range(500)]
    async with served(FileSource(Snapshot.of([*nodes, *pods])), longest=0.01) as visitor:
        page = await visitor.page("/questions/shrink?asked=yes&force=yes")
        assert "the question took longer than 0.01 s" in page.text
        assert (await visitor.page("/")).text


class Shown:
    """An answer that shows one thing."""

    def __init__(self, shown):
        self.shown = shown

    def render(self):
        return self.shown


def test_cells_that_name_nodes_and_pods_are_links():
    table = Table("POD", "NODE", "CPU", "SHARE")
    table.add_row("default/web-0", "node-a1", "3", "1 (75%)")
    table.add_row("default/none", "", "1.5", "-")
    table.add_row("and 3 more")
    insight = Insight(Snapshot.of(small_cluster()))
    assert parts_of(insight, Shown(table)) == (
        Grid(
            ("Pod", "Node", "Cpu", "Share"),
            (False, False, True, True),
            (
                (
                    Cell("default/web-0", "/pods/default/web-0"),
                    Cell("node-a1", "/nodes/node-a1"),
                    Cell("3"),
                    Cell("1 (75%)"),
                ),
                (Cell("default/none"), Cell(""), Cell("1.5"), Cell("-")),
                (Cell("and 3 more"), Cell(""), Cell(""), Cell("")),
            ),
        ),
    )


def test_part_that_the_page_cannot_show_is_an_error():
    insight = Insight(Snapshot())
    assert parts_of(insight, Shown(Text("headline", style="bold"))) == (TextLine("headline", strong=True),)
    with pytest.raises(TypeError, match="an answer has a Columns"):
        parts_of(insight, Shown(Columns()))


def test_interrupted_questions_raise_what_the_page_expects():
    def stop(_):
        raise Stopped

    insight = Insight(Snapshot.of(small_cluster()))
    form = {
        "pools": "",
        "most": "",
        "prices": "",
        "selector": "",
        "delete_emptydir_data": "",
        "force": "yes",
        "ignore_daemonsets": "",
    }
    for name in ("scale-up", "shrink"):
        assert QUESTIONS[name].filled(insight, form).ask(insight, stop).interrupted
