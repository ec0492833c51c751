"""Questions about a namespace that doesn't exist."""

import pytest
from bayplan_documents import node, pod
from tests.support.tables import cases

from bayplan.insight import Insight, QuestionError, Snapshot

TEAM, EMPTY = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("team", "empty"))
CLUSTER = [node("n1"), pod("a") | {"metadata": {"name": "a", "namespace": "team"}}]
OBJECTS = [*CLUSTER, TEAM, EMPTY]
QUESTIONS = {"explain_all": Insight.explain_all, "usage": Insight.usage}


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
@cases("namespace, hint", {"a typing error": ("tema", ": did you mean 'team'?"), "another name": ("production", "")})
def test_an_unknown_namespace_is_named(ask, namespace, hint):
    insight = Insight(Snapshot.of(OBJECTS))
    with pytest.raises(QuestionError, match=f"^there is no namespace {namespace} in ") as raised:
        ask(insight, namespace)
    assert str(raised.value).endswith(hint or "the snapshot")


@pytest.mark.parametrize("ask", QUESTIONS.values(), ids=QUESTIONS)
@cases(
    "namespace, objects",
    {
        "without pods": ("empty", OBJECTS),
        "that always exists": ("default", OBJECTS),
        "if namespaces can't be read": ("tema", CLUSTER),
    },
)
def test_a_namespace_may_have_no_pods(ask, namespace, objects):
    ask(Insight(Snapshot.of(objects)), namespace)
