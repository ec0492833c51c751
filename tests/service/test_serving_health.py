import pytest

from bayplan.service.serving.health import HEALTHZ, LIVEZ, READYZ, HealthChecks


@pytest.fixture
def checks():
    checks = HealthChecks()
    checks.add("lease", lambda: "", HEALTHZ, READYZ)
    checks.add("loop", lambda: "blocked by a plugin", LIVEZ)
    return checks


@pytest.mark.parametrize(
    ("endpoint", "check", "options", "expected"),
    [
        pytest.param(HEALTHZ, "", {}, (True, "ok"), id="good"),
        pytest.param(
            HEALTHZ, "", {"verbose": True}, (True, "[+]ping ok\n[+]lease ok\nhealthz check passed\n"), id="verbose"
        ),
        pytest.param(
            LIVEZ,
            "",
            {},
            (False, "[+]ping ok\n[-]loop failed: reason withheld\nlivez check failed\n"),
            id="bad, and the reason is not for everybody",
        ),
        pytest.param(LIVEZ, "", {"exclude": ["loop"]}, (True, "ok"), id="what is bad excluded"),
        pytest.param(
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
            id="excluded, known and unknown",
        ),
        pytest.param(READYZ, "ping", {}, (True, "ok"), id="one check, good"),
        pytest.param(LIVEZ, "loop", {}, (False, "internal server error: blocked by a plugin\n"), id="one check, bad"),
    ],
)
def test_answers(checks, endpoint, check, options, expected) -> None:
    assert checks.answer(endpoint, check, **{"verbose": False, "exclude": [], **options}) == expected


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
def test_paths(checks, path, found) -> None:
    assert checks.find(path) == found


def test_lists_its_paths(checks) -> None:
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


def test_a_name_is_taken_once_an_endpoint(checks) -> None:
    with pytest.raises(ValueError, match="/readyz has a check 'lease' already"):
        checks.add("lease", lambda: "", READYZ)


def test_a_check_that_breaks_is_bad_and_told_in_the_log(checks, caplog) -> None:
    checks.add("broken", lambda: str(1 / 0), HEALTHZ)
    assert not checks.answer(HEALTHZ, "", verbose=False, exclude=[]).healthy
    assert "ZeroDivisionError" in caplog.text
    assert "healthz check failed: broken: the check itself broke: division by zero" in caplog.text


def test_counts_what_checks_said(checks) -> None:
    for _ in range(2):
        checks.answer(LIVEZ, "", verbose=False, exclude=[])
    samples = {
        (sample.name, *sample.labels.values()): sample.value for family in checks.collect() for sample in family.samples
    }
    assert samples == {
        ("kubernetes_healthcheck", "ping", "livez"): 1,
        ("kubernetes_healthcheck", "loop", "livez"): 0,
        ("kubernetes_healthchecks_total", "ping", "livez", "success"): 2,
        ("kubernetes_healthchecks_total", "loop", "livez", "error"): 2,
    }
