import pytest
from tests.support.tables import cases

from bayplan.running.service.serving.health import HEALTHZ, LIVEZ, READYZ, HealthChecks


@pytest.fixture
def checks():
    checks = HealthChecks()
    checks.add("lease", lambda: "", HEALTHZ, READYZ)
    checks.add("loop", lambda: "blocked by a plugin", LIVEZ)
    return checks


@cases(
    "endpoint, check, options, expected",
    {
        "healthy": (HEALTHZ, "", {}, (True, "ok")),
        "verbose": (HEALTHZ, "", {"verbose": True}, (True, "[+]ping ok\n[+]lease ok\nhealthz check passed\n")),
        "unhealthy, without the reason": (
            LIVEZ,
            "",
            {},
            (False, "[+]ping ok\n[-]loop failed: reason withheld\nlivez check failed\n"),
        ),
        "unhealthy check excluded": (LIVEZ, "", {"exclude": ["loop"]}, (True, "ok")),
        "known and unknown names excluded": (
            HEALTHZ,
            "",
            {"verbose": True, "exclude": ["b", "lease", "a"]},
            (
                True,
                (
                    "[+]ping ok\n[+]lease excluded: ok\n"
                    'warn: some health checks cannot be excluded: no matches for "a","b"\nhealthz check passed\n'
                ),
            ),
        ),
        "single healthy check": (READYZ, "ping", {}, (True, "ok")),
        "single unhealthy check": (LIVEZ, "loop", {}, (False, "internal server error: blocked by a plugin\n")),
    },
)
def test_check_results(checks, endpoint, check, options, expected) -> None:
    assert checks.check(endpoint, check, **{"verbose": False, "exclude": [], **options}) == expected


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/healthz", ("healthz", "")),
        ("/healthz/", ("healthz", "")),
        ("/healthz/lease", ("healthz", "lease")),
        ("/livez/lease", None),
        ("/livez/loop/more", None),
        ("/metrics", None),
        ("/", None),
    ],
)
def test_find_splits_a_path_into_endpoint_and_check(checks, path, found) -> None:
    assert checks.find(path) == found


def test_paths_include_single_checks(checks) -> None:
    assert checks.paths == [
        "/healthz",
        "/healthz/ping",
        "/healthz/lease",
        "/livez",
        "/livez/ping",
        "/livez/loop",
        "/readyz",
        "/readyz/ping",
        "/readyz/lease",
    ]


def test_check_names_are_unique_per_endpoint(checks) -> None:
    with pytest.raises(ValueError, match="/readyz already has a check 'lease'"):
        checks.add("lease", lambda: "", READYZ)


def test_check_that_raises_is_unhealthy_and_logged(checks, caplog) -> None:
    checks.add("broken", lambda: str(1 / 0), HEALTHZ)
    assert not checks.check(HEALTHZ, "", verbose=False, exclude=[]).healthy
    assert "ZeroDivisionError" in caplog.text
    assert "healthz check failed: broken: the check raised an exception: division by zero" in caplog.text


def test_results_are_counted(checks) -> None:
    for _ in range(2):
        checks.check(LIVEZ, "", verbose=False, exclude=[])
    samples = {
        (sample.name, *sample.labels.values()): sample.value for family in checks.collect() for sample in family.samples
    }
    assert samples == {
        ("kubernetes_healthcheck", "ping", "livez"): 1,
        ("kubernetes_healthcheck", "loop", "livez"): 0,
        ("kubernetes_healthchecks_total", "ping", "livez", "success"): 2,
        ("kubernetes_healthchecks_total", "loop", "livez", "error"): 2,
    }
