"""Imports are at the top of modules. What is imported late says so there: `bayplan.foundations.lazy.on_use`."""

import ast
from collections import Counter
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"
MOST = 11
"""The most imports in functions. Lower it when one goes."""


def imports_in_functions(tree: ast.AST) -> int:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    found = {node for each in functions for node in ast.walk(each) if isinstance(node, ast.Import | ast.ImportFrom)}
    return len(found)


def test_what_counts():
    text = (
        "import a\ndef f():\n    import b\n    def g():\n        from c import d\nclass A:\n    def h(self): import e"
    )
    assert imports_in_functions(ast.parse(text)) == 3


def test_functions_have_few_imports():
    counts = Counter(
        {
            str(path.relative_to(SOURCES)): imports_in_functions(ast.parse(path.read_bytes()))
            for package in ("bayplan", "bayplan_plugins")
            for path in (SOURCES / package).rglob("*.py")
        }
    )
    assert counts.total() <= MOST, counts.most_common(10)
