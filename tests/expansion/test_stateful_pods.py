import pytest

from bayplan.core.expansion.stateful_pods import parent_and_ordinal


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("db-0", ("db", 0)),
        ("db-1-12", ("db-1", 12)),
        ("db-007", ("db", 7)),
        ("db", ("", -1)),
        ("db-x", ("", -1)),
        ("db-", ("", -1)),
        (f"db-{2**31}", ("", -1)),
    ],
)
def test_name_of_a_pod_has_its_set_and_ordinal(name, found):
    assert parent_and_ordinal(name) == found
