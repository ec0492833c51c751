"""The forms of findings that pipelines read: SARIF for code scanning, annotations of GitHub, and JUnit.

SARIF is version 2.1.0, with the fields that GitHub's code scanning asks for. A finding without a file is about the
cluster: code scanning wants a place, so it stands at the first line of the first file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import PurePath
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import quoteattr

from bayplan.answers.insight.checking.findings import Finding
from bayplan.answers.insight.checking.rules import ERROR, LEVELS, NOTE, RULES, WARNING
from bayplan.answers.insight.tables import grouped

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_GITHUB = {ERROR: "error", WARNING: "warning", NOTE: "notice"}
_NOT_IN_XML = dict.fromkeys([*range(9), 11, 12, *range(14, 32), 0xFFFE, 0xFFFF])


def sarif(findings: Sequence[Finding]) -> str:
    """Return a log of SARIF 2.1.0."""
    names = list(RULES)
    elsewhere = next((each.file for each in findings if each.file), "manifests")
    driver = {
        "name": "bayplan check",
        "version": version("bayplan"),
        "semanticVersion": version("bayplan"),
        "rules": [_rule(name) for name in names],
    }
    results = [_result(each, names.index(each.rule), elsewhere) for each in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(name: str) -> dict[str, Any]:
    rule = RULES[name]
    return {
        "id": name,
        "name": "".join(part.title() for part in name.split("-")),
        "shortDescription": {"text": rule.text},
        "fullDescription": {"text": rule.text},
        "help": {"text": f"{rule.text} docs/check.md says what to do."},
        "defaultConfiguration": {"level": rule.level},
        "properties": {"tags": ["kubernetes", "scheduling"]},
    }


def _result(found: Finding, number: int, elsewhere: str) -> dict[str, Any]:
    identity = "\0".join((found.rule, found.object, PurePath(found.file or elsewhere).as_posix()))
    location = {
        "physicalLocation": {
            "artifactLocation": {"uri": _uri(found.file or elsewhere)},
            "region": {"startLine": max(found.line, 1)},
        },
        "logicalLocations": [{"fullyQualifiedName": found.object, "kind": "resource"}],
    }
    return {
        "ruleId": found.rule,
        "ruleIndex": number,
        "level": found.level,
        "message": {"text": f"{found.object}: {found.message}\nNext: {found.next}"},
        "locations": [location],
        "partialFingerprints": {"bayplanFinding/v1": hashlib.sha256(identity.encode()).hexdigest()},
    }


def _uri(file: str) -> str:
    path = PurePath(file)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())


def github(findings: Sequence[Finding]) -> str:
    """Return workflow commands of GitHub Actions, one on each line, which it shows beside the files."""
    return "\n".join(_annotation(each) for each in findings)


def _annotation(found: Finding) -> str:
    properties = {"title": f"{found.rule}: {found.object}"}
    if found.file:
        properties = {"file": found.file, "line": str(max(found.line, 1)), **properties}
    joined = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    text = f"{found.message}\nNext: {found.next}"
    return f"::{_GITHUB[found.level]} {joined}::{_data(text)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def junit(findings: Sequence[Finding], fail_on: str = ERROR) -> str:
    """Return JUnit's XML: a test for each rule. It fails from a level on; what else was found is its output."""
    return "\n".join(_junit_lines(findings, LEVELS[: LEVELS.index(fail_on) + 1]))


def _junit_lines(findings: Sequence[Finding], failing: Sequence[str]) -> Iterator[str]:
    by_rule = grouped((each.rule, each) for each in findings)
    failures = sum(RULES[name].level in failing for name in by_rule)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    yield f'<testsuites name="bayplan check" tests="{len(RULES)}" failures="{failures}" errors="0">'
    yield f'<testsuite name="bayplan check" tests="{len(RULES)}" failures="{failures}" errors="0" skipped="0">'
    for name, rule in RULES.items():
        found = by_rule.get(name, ())
        where = found[0] if found and found[0].file else None
        place = "" if where is None else f" file={_attribute(where.file)} line={_attribute(str(where.line))}"
        yield f'<testcase classname="bayplan.check" name={_attribute(name)}{place}>'
        text = _text("\n".join(_line(each) for each in found))
        if found and rule.level in failing:
            title = _attribute(f"{found[0].object}: {found[0].message}")
            yield f"<failure type={_attribute(rule.level)} message={title}>{text}</failure>"
        elif found:
            yield f"<system-out>{text}</system-out>"
        yield "</testcase>"
    yield "</testsuite>"
    yield "</testsuites>"


def _line(found: Finding) -> str:
    place = f" ({found.place})" if found.place else ""
    return f"{found.object}{place}: {found.message}; next: {found.next}"


def _text(text: str) -> str:
    return _xml(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _attribute(text: str) -> str:
    return quoteattr(_xml(text), {"\n": "&#10;"})


def _xml(text: str) -> str:
    """A text without the characters that XML can't have."""
    return text.translate(_NOT_IN_XML).encode("utf-8", "replace").decode()


FORMS: Mapping[str, Callable[[Sequence[Finding], str], str]] = {
    "sarif": lambda findings, _: sarif(findings),
    "github": lambda findings, _: github(findings),
    "junit": junit,
}
"""name -> how it is made of findings, and of the level from which a check fails"""
