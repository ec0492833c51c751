"""Where this Bayplan was installed from, so that a new project can install the same one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import distribution
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname


def pip_arguments() -> list[str]:
    """Return the arguments of `pip install` that install this Bayplan; none if it came from a package index."""
    record = distribution("bayplan").read_text("direct_url.json")
    return arguments_of(json.loads(record)) if record else []


def arguments_of(origin: Mapping[str, Any]) -> list[str]:
    """Return the arguments for a direct URL, the record that PEP 610 specifies: a path, an archive or a repository."""
    url = origin["url"]
    fragment = f"#subdirectory={origin['subdirectory']}" if "subdirectory" in origin else ""
    if "vcs_info" in origin:
        repository = origin["vcs_info"]
        return [f"{repository['vcs']}+{url}@{repository['commit_id']}{fragment}"]
    if urlsplit(url).scheme != "file":
        return [f"{url}{fragment}"]
    path = url2pathname(urlsplit(url).path)
    editable = origin.get("dir_info", {}).get("editable", False)
    return ["--editable", path] if editable else [path]
