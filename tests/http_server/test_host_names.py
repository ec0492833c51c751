"""The host names that a server answers to."""

import pytest

from bayplan.foundations.http_server import HostNames


@pytest.mark.parametrize(
    ("address", "header", "accepted"),
    [
        ("127.0.0.1", "127.0.0.1:8001", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "127.8.9.10:8001", True),
        ("127.0.0.1", "localhost:8001", True),
        ("127.0.0.1", "LOCALHOST", True),
        ("127.0.0.1", "[::1]:8001", True),
        ("127.0.0.1", "[::1]", True),
        ("127.0.0.1", "::1", True),
        ("::1", "[::1]:8001", True),
        ("::1", "localhost", True),
        ("localhost", "127.0.0.1:8001", True),
        ("127.0.0.1", "evil.example", False),
        ("127.0.0.1", "evil.example:8001", False),
        ("127.0.0.1", "localhost.evil.example", False),
        ("127.0.0.1", "127.0.0.1.evil.example:8001", False),
        ("127.0.0.1", "10.0.0.1:8001", False),
        ("127.0.0.1", "[fe80::1]:8001", False),
        ("127.0.0.1", "", False),
        ("127.0.0.1", ":8001", False),
        ("0.0.0.0", "evil.example", True),
        ("0.0.0.0", "", True),
        ("10.0.0.1", "extender.kube-system.svc:8888", True),
    ],
)
def test_servers_on_loopback_accept_only_their_own_names(address, header, accepted):
    assert HostNames(address).accept(header) is accepted


@pytest.mark.parametrize(
    ("patterns", "header", "accepted"),
    [
        (r"^localhost$,^127\.0\.0\.1$,^\[::1\]$", "[::1]:8001", True),
        (r"^localhost$,^127\.0\.0\.1$,^\[::1\]$", "[::1]", True),
        (r"^localhost$,^127\.0\.0\.1$,^\[::1\]$", "localhost:1", True),
        (r"^localhost$,^127\.0\.0\.1$,^\[::1\]$", "evil.example", False),
        (r"\.svc$", "extender.kube-system.svc:8888", True),
        (r"\.svc$", "localhost", False),
        (r"\.svc$", "[::1]:8001", False),
        (".*", "", True),
        ("", "localhost", False),
    ],
)
@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_patterns_replace_the_default(address, patterns, header, accepted):
    assert HostNames(address, patterns).accept(header) is accepted


def test_invalid_pattern_is_reported():
    with pytest.raises(ValueError, match=r"'\(' is not a regular expression: missing \)"):
        HostNames("127.0.0.1", "^localhost$,(")
