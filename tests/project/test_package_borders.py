"""The docstring of each package names the modules of it that others may import: "Other packages use `a`, `b`."."""

import ast
import re
from collections import defaultdict
from pathlib import Path

OURS = ("bayplan.", "bayplan_devcluster.", "bayplan_plugins.")
ROOT = Path(__file__).parents[2] / "src"
NAMED = re.compile(r"^Other packages use ((?:`\w+`(?:, )?)+)\.$", re.MULTILINE)


def place_of(path):
    """The parts of a module's name, such as ("bayplan", "core", "api", "kinds"); a package ends with its own name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts


PLACES = {place_of(path): path for path in ROOT.rglob("*.py")}
PACKAGES = {place for place, path in PLACES.items() if path.name == "__init__.py" and len(place) > 1}


def imported(path):
    """The modules of the project that a module imports, as parts."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{name}" for name in names]
        for name in names:
            parts = tuple(name.split(".")) if name.startswith(OURS) else ()
            yield parts if parts in PLACES else parts[:-1]


def uses():
    """package -> the modules in it that others import"""
    found = defaultdict(set)
    for place, path in PLACES.items():
        for parts in imported(path):
            for length in range(2, len(parts)):
                package = parts[:length]
                if place[:length] != package:
                    found[package].add(parts[length])
    return found


def named(package):
    """The modules that the docstring of a package names."""
    lines = NAMED.findall(re.sub(r",\n", ", ", ast.get_docstring(ast.parse(PLACES[package].read_bytes())) or ""))
    return {name for line in lines for name in re.findall(r"\w+", line)}


def test_packages_use_of_others_what_these_name():
    found = uses()
    names = {".".join(package): (named(package), found[package]) for package in PACKAGES}
    assert {package: sorted(used - known) for package, (known, used) in names.items() if used - known} == {}
    assert {package: sorted(known - used) for package, (known, used) in names.items() if known - used} == {}
