"""No constructor of the service takes more than five arguments: parts that travel together are one value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVICE = Path(__file__).parents[2] / "src" / "bayplan" / "service"
MOST = 5
RECORDS = {"Binding", "Runtime", "ServingOptions", "Settings", "Snapshot", "_Status", "_Undecodable"}
"""Data classes with more fields than that: they are the values that others are constructed from."""


def large_constructors(text: str) -> Iterator[tuple[str, int]]:
    """Yield the classes whose constructors take too many arguments, written or generated, with the number."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            count = arguments_of(node)
            if count > MOST:
                yield node.name, count


def arguments_of(node: ast.ClassDef) -> int:
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            found = statement.args
            each = [*found.posonlyargs, *found.args, *found.kwonlyargs, found.vararg, found.kwarg]
            return sum(argument is not None for argument in each) - 1
    generated = [ast.unparse(each) for each in (*node.decorator_list, *node.bases)]
    if any(each.startswith(("dataclass", "NamedTuple")) for each in generated):
        return sum(isinstance(statement, ast.AnnAssign) and not is_internal(statement) for statement in node.body)
    return 0


def is_internal(statement: ast.AnnAssign) -> bool:
    """Whether a field is no argument of the generated constructor."""
    return "init=False" in ast.unparse(statement) or ast.unparse(statement.annotation).startswith("ClassVar")


def test_service_constructors_take_few_arguments():
    found = {
        name: (str(path.relative_to(SERVICE)), count)
        for path in SERVICE.rglob("*.py")
        for name, count in large_constructors(path.read_text(encoding="utf-8"))
    }
    assert {name: where for name, where in found.items() if name not in RECORDS} == {}
    assert found.keys() == RECORDS, "these records are no longer large"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class C:\n    def __init__(self, a, b, c, d, e): ...", []),
        ("class C:\n    def __init__(self, a, b, c, d, *, e, f): ...", [("C", 6)]),
        ("class C:\n    def __init__(self, a, b, c, d, *e, **f): ...", [("C", 6)]),
        (
            "@dataclass(slots=True)\nclass C:\n    a: int\n    b: int\n    c: int\n    d: int\n    e: int\n    f: int",
            [("C", 6)],
        ),
        ("@dataclass\nclass C:\n    a: X\n    b: X\n    c: X\n    d: X\n    e: X\n    f: X = field(init=False)", []),
        ("class C(NamedTuple):\n    a: X\n    b: X\n    c: X\n    d: X\n    e: X\n    f: X", [("C", 6)]),
        ("class C(Protocol):\n    a: X\n    b: X\n    c: X\n    d: X\n    e: X\n    f: X", []),
    ],
)
def test_arguments_are_counted(text, expected):
    assert list(large_constructors(text)) == expected
