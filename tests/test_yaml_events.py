"""YAML is read as PyYAML's safe loader reads it, faults included, in little memory for its size."""

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.foundations.manifest_files import MOST_VALUES, ManifestError, yaml_documents


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    """PyYAML's own, with dates as strings."""


Loader.yaml_implicit_resolvers = {
    first: [each for each in known if not each[0].endswith(":timestamp")]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
PARTS = (
    *(
        "a",
        "b: ",
        "- ",
        "\n",
        "\n  ",
        "[",
        "]",
        "{",
        "}",
        ",",
        '"',
        "'",
        "|\n",
        ">",
        ": ",
        "? ",
        "# c",
        "\t",
        "---\n",
        "...\n",
    ),
    *("&x ", "*x", "!!int ", "!!str ", "! ", "<<: ", "=", "{a: 1}", "é", "%", "@"),
    *(
        "1",
        "0x1F",
        "1e3",
        "1.5",
        ".inf",
        "~",
        "null",
        "yes",
        "no",
        "2026-01-01",
        "1_000",
        "0o17",
        "017",
        "1:30",
        "-",
        "+1",
    ),
)


def outcome(read: Callable[[str], Iterator[Any]], text: str) -> Any:
    """The documents of a text, or that there is a fault."""
    try:
        return repr(list(read(text)))
    except (yaml.YAMLError, ManifestError, ValueError, LookupError, TypeError):
        return "a fault"


@settings(max_examples=500, derandomize=True)
@given(st.lists(st.sampled_from(PARTS), max_size=14).map("".join).filter(lambda text: not text.startswith("{")))
def test_documents_are_those_of_pyyaml(text):
    def ours(text):
        return (document for _, document in yaml_documents("a.yaml", text))

    assert outcome(ours, text) == outcome(lambda text: yaml.load_all(text, Loader), text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("---\n---\na: 1\n", [(2, None), (3, {"a": 1})]),
        ("# c\n\na: &x [1]\nb: *x\n", [(3, {"a": [1], "b": [1]})]),
        ("a: 1\n---\nb: !!str 2\n---\nc: 3\n", [(1, {"a": 1}), (3, {"b": "2"}), (5, {"c": 3})]),
        ("a: &x {b: 1}\nc: {<<: *x, d: 2}\n", [(1, {"a": {"b": 1}, "c": {"b": 1, "d": 2}})]),
        ("a: 1\na: 2\n", [(1, {"a": 2})]),
        ("", []),
    ],
)
def test_documents_have_their_first_lines(text, found):
    assert list(yaml_documents("a.yaml", text)) == found


@pytest.mark.parametrize("line", ["- a\n", "k{}: 1\n", "- {{name: n{}, value: v}}\n"])
def test_large_document_takes_little_more_memory_than_its_values(line):
    """A hundredth of what is allowed takes a hundredth of 256 MiB, however its values are nested."""
    lines = MOST_VALUES // 100 // (1 + line.count(","))
    text = "".join(line.format(number) for number in range(lines))
    tracemalloc.start()
    try:
        ((_, document),) = yaml_documents("a.yaml", text)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(document) == lines
    assert most < 256 * 2**20 / 100
