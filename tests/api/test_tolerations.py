import pytest
from tests.support.tables import cases

from bayplan.core.api.tolerations import Toleration, tolerate_scheduling

TAINT = ("dedicated", "gpu", "NoSchedule")


@cases(
    "toleration, tolerated",
    {
        "equal": (Toleration("dedicated", "Equal", "gpu", "NoSchedule"), True),
        "no operator means equal, no effect means any": (Toleration("dedicated", "", "gpu", ""), True),
        "another value": (Toleration("dedicated", "Equal", "cpu", ""), False),
        "exists": (Toleration("dedicated", "Exists", "", "NoSchedule"), True),
        "everything": (Toleration("", "Exists", "", ""), True),
        "no key means any key": (Toleration("", "Equal", "gpu", ""), True),
        "another key": (Toleration("other", "Exists", "", ""), False),
        "another effect": (Toleration("dedicated", "Exists", "", "NoExecute"), False),
        "Gt is disabled": (Toleration("dedicated", "Gt", "1", ""), False),
    },
)
def test_tolerates(toleration, tolerated):
    assert toleration.tolerates(TAINT) is tolerated


@pytest.mark.parametrize(
    ("effect", "kept_off"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False), ("", False)]
)
def test_effects_that_keep_pods_off(effect, kept_off):
    assert tolerate_scheduling((), [("a", "", effect)]) is not kept_off
