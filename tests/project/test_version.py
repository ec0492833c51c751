"""The version has one place, pyproject.toml. What has to repeat it says the same."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
IMAGE = re.compile(r"registry\.example/bayplan:(\d+\.\d+\.\d+)")


def test_manifests_and_pages_name_the_image_of_this_version():
    folders = ("deploy", "docs", "examples")
    pages = [ROOT / "README.md", *(path for each in folders for path in (ROOT / each).rglob("*") if path.is_file())]
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in pages}
    named = {path.relative_to(ROOT).as_posix(): set(IMAGE.findall(text)) for path, text in texts.items()}
    assert {path: found for path, found in named.items() if found - {VERSION}} == {}
    assert sum(map(bool, named.values())) > 5


def test_the_chart_has_this_version():
    chart = yaml.safe_load((ROOT / "deploy" / "chart" / "bayplan" / "Chart.yaml").read_bytes())
    assert (str(chart["version"]), str(chart["appVersion"])) == (VERSION, VERSION)


def test_the_changelog_has_this_version():
    assert f"\n## [{VERSION}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
