"""The modules for tests of plugins import little, and only the fixtures import pytest."""

import subprocess
import sys

import pytest

import bayplan.testing

HEAVY = ("aiohttp", "cryptography", "lightkube", "numpy", "pytest")


def imported_by(code):
    script = f"{code}; import sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    ("code", "heavy"),
    [
        ("import bayplan.testing", []),
        ("import bayplan.testing.fixtures", ["pytest"]),
        ("from bayplan.testing import make_cluster, check_contract", ["lightkube", "numpy"]),
    ],
)
def test_imports_load_only_what_they_need(code, heavy):
    assert imported_by(code) == heavy


def test_nothing_but_the_fixtures_imports_pytest():
    assert "pytest" not in imported_by("from bayplan.testing import *")


def test_all_public_names_exist():
    for name in bayplan.testing.__all__:
        assert getattr(bayplan.testing, name) is not None
    assert dir(bayplan.testing) == sorted(bayplan.testing.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        bayplan.testing.nothing  # noqa: B018 - the access is tested
