from __future__ import annotations

import pytest

from bayplan.api.tolerations import Toleration, tolerate_scheduling

TAINT = ("dedicated", "gpu", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param(Toleration("dedicated", "Equal", "gpu", "NoSchedule"), True, id="equal"),
        pytest.param(Toleration("dedicated", "", "gpu", ""), True, id="no operator means equal, no effect means any"),
        pytest.param(Toleration("dedicated", "Equal", "cpu", ""), False, id="another value"),
        pytest.param(Toleration("dedicated", "Exists", "", "NoSchedule"), True, id="exists"),
        pytest.param(Toleration("", "Exists", "", ""), True, id="everything"),
        pytest.param(Toleration("", "Equal", "gpu", ""), True, id="no key means any key"),
        pytest.param(Toleration("other", "Exists", "", ""), False, id="another key"),
        pytest.param(Toleration("dedicated", "Exists", "", "NoExecute"), False, id="another effect"),
        pytest.param(Toleration("dedicated", "Gt", "1", ""), False, id="Gt is disabled"),
    ],
)
def test_tolerates(toleration, tolerated):
    assert toleration.tolerates(TAINT) is tolerated


@pytest.mark.parametrize(
    ("effect", "kept_off"), [("NoSchedule", True), ("NoExecute", True), ("PreferNoSchedule", False), ("", False)]
)
def test_effects_that_keep_pods_off(effect, kept_off):
    assert tolerate_scheduling((), [("a", "", effect)]) is not kept_off
