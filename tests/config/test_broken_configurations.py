"""Invalid configurations with their exact error messages: file, line, path, what is wrong, and what is expected.

All errors are reported at once, in the order of the document.
"""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
from tests.support.tables import cases

from bayplan import Plugin, filter_plugin
from bayplan.core.config import ConfigurationError, read_configuration

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)


class Limits(msgspec.Struct):
    most: int
    zones: list[str] = []
    weights: dict[str, int] = {}
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    mode: Literal["hard", "soft"] = "hard"

    def __post_init__(self):
        if self.most > 100:
            raise ValueError("most must be at most 100")


class Limited(Plugin):
    name = "Limited"
    arguments = Limits

    def __init__(self, args):
        self.most = args.most

    def filter(self, cycle, pod, node):
        return None


@filter_plugin
def tier(pod, node):
    return f"{pod} not on {node}"


CASES = (Path(__file__).parent / "broken_configurations.txt").read_text().split("==== ")[1:]
"""Each has a name, a document and, after a line of dashes, the errors."""


def error_of(content, folder, monkeypatch):
    monkeypatch.chdir(folder)
    path = Path("config.yaml")
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError) as error:
        read_configuration(path, [Limited, tier])
    return str(error.value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.partition("\n")[0])
def test_all_errors_are_reported_with_their_lines(case, tmp_path, monkeypatch):
    document, expected = case.partition("\n")[2].split("---- errors:\n")
    assert error_of(document, tmp_path, monkeypatch) == expected.rstrip("\n")


@cases(
    "content, line",
    {
        "empty": (b"", ": is empty: expected a mapping of fields"),
        "5,000 digits": (HEAD + "parallelism: " + "9" * 5000, ":3: this number cannot be read"),
        "exponential aliases": (HEAD + LAUGHS, ": has more than 200,000 values with aliases expanded"),
        "150 lists": (f"{HEAD}a: {'[' * 150}{']' * 150}", ": is nested deeper than 100 levels"),
        "null byte": (HEAD + "a: \0\n", ":3: has an unprintable character, U+0000"),
        "control character": (HEAD + "a: \a\n", ":3: has an unprintable character, U+0007"),
        "binary": (bytes(range(256)), ":2: is not UTF-8 text: byte 0x80"),
        "UTF-16 with a byte order mark": (HEAD.encode("utf-16"), ": is UTF-16: save it as UTF-8"),
        "Latin-1": (HEAD.encode() + b"# \xfcber\n", ":3: is not UTF-8 text: byte 0xFC"),
        "12 megabytes": (b"# \n" * 4_000_000, ": is larger than 10,000,000 bytes"),
        "100,000 brackets": (b"[" * 100_000, ": is nested deeper than 100 levels"),
        "100,000 braces": (b'{"a":\t' * 100_000, ":1: a tab cannot start a value or indent a line: use spaces"),
    },
)
def test_unreadable_files_are_rejected(content, line, tmp_path, monkeypatch):
    assert error_of(content, tmp_path, monkeypatch) == f"config.yaml{line}"


@cases(
    "content",
    {
        "UTF-8 with a byte order mark": b"\xef\xbb\xbf" + HEAD.encode(),
        "Windows line endings": HEAD.replace("\n", "\r\n").encode(),
        "empty documents": b"---\n" + HEAD.encode() + b"---\n",
        "JSON with tabs": b'{\n\t"apiVersion": "kubescheduler.config.k8s.io/v1",\n'
        b'\t"kind": "KubeSchedulerConfiguration"\n}\n',
        "anchors": HEAD.encode() + b"profiles:\n- &a {schedulerName: a}\n- {<<: *a, schedulerName: b}\n",
        "numbers like in Go": HEAD.encode() + b"parallelism: 16.0\nclientConnection: {qps: 1e2}\n",
    },
)
def test_unusual_but_valid_files_are_accepted(content, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_bytes(content)
    assert read_configuration(path).configuration.parallelism == 16
