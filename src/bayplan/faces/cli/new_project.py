"""The files of a new project, rendered from templates, and the names that a project may have."""

from __future__ import annotations

import keyword
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import requires, version
from importlib.resources import files
from pathlib import Path

from bayplan.faces.cli.installation import pip_arguments
from bayplan.faces.cli.manifests_documents import CONFIGURATION_FILE, Deployed, documents
from bayplan.faces.cli.manifests_text import stream
from bayplan.foundations.file_replacement import replace_text

MANIFESTS = "manifests"
"""Marks a file that is generated instead of rendered from a template."""

FILES: Mapping[str, tuple[str, str]] = {
    "src/__MODULE__/plugins.py": ("plugins.py", "the plugins: a function, and a class with arguments"),
    "src/__MODULE__/__init__.py": ("package.py", ""),
    "tests/test_plugins.py": ("test_plugins.py", "their tests; one runs the scheduler"),
    "tests/conftest.py": ("conftest.py", ""),
    "scheduler.yaml": ("scheduler.yaml", "the configuration: the enabled plugins and their arguments"),
    "pods.yaml": ("pods.yaml", "two pods to schedule"),
    "Dockerfile": ("Dockerfile", "Bayplan's image with the plugins"),
    ".dockerignore": ("dockerignore", ""),
    "deploy/__NAME__.yaml": (MANIFESTS, "account, permissions, configuration and Deployment"),
    "pyproject.toml": ("pyproject.toml", "the package, with the plugins as entry points"),
    "README.md": ("README.md", "all commands"),
    ".gitignore": ("gitignore", ""),
}
"""Every file of a project: its template, and its description for new users ("" for none)."""

RESERVED = frozenset({"bayplan", "bayplan-scheduler", "default-scheduler", "kube-scheduler", "plugins", "src", "tests"})
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class UnusableName(ValueError):
    """A name that a project cannot have. The message says why, and what is expected."""


class UnusableDirectory(Exception):
    """A directory that the project cannot be written to. The message says why."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project. `name` is the name of its scheduler, a DNS label. Raises UnusableName."""

    name: str

    def __post_init__(self) -> None:
        name, module = self.name, self.module
        if not _LABEL.fullmatch(name):
            raise UnusableName(
                f"{name!r} cannot be the name of a scheduler: expected at most 63 of a-z, 0-9 and '-', starting and "
                f"ending with a letter or digit{_suggestion(name)}"
            )
        if not module.isidentifier() or keyword.iskeyword(module):
            raise UnusableName(f"{name!r} cannot be the name of a Python package, {module}: expected a letter first")
        if name in RESERVED or module in _taken_modules():
            raise UnusableName(f"{name!r} is taken: the scheduler needs something else with that name")

    @property
    def module(self) -> str:
        """The name of the Python package: my_scheduler for my-scheduler."""
        return self.name.replace("-", "_")

    @property
    def prefix(self) -> str:
        """The prefix of the plugins' names: MyScheduler for my-scheduler."""
        return "".join(part[:1].upper() + part[1:] for part in self.name.split("-"))

    @property
    def install(self) -> str:
        """The shell command that installs the project, what its tests need, and this Bayplan."""
        return shlex.join(["python", "-m", "pip", "install", *pip_arguments(), "--editable", ".[test]"])

    def files(self) -> dict[str, str]:
        """Return the content of each file, by path in the project."""
        return {self._filled(path): self._rendered(template) for path, (template, _) in FILES.items()}

    def described(self) -> dict[str, str]:
        """Return the descriptions of the files that new users should look at."""
        return {self._filled(path): text for path, (_, text) in FILES.items() if text}

    def write(self, directory: Path, *, force: bool = False) -> list[Path]:
        """Write all files. With `force`, the directory may have content, and files with the same name are replaced.

        Raises UnusableDirectory.
        """
        try:
            if not force and directory.is_dir() and any(directory.iterdir()):
                raise UnusableDirectory(
                    f"{directory} is not empty: choose another --directory, or pass --force to replace files with the "
                    "same name"
                )
            written = []
            for path, content in self.files().items():
                target = directory / path
                target.parent.mkdir(parents=True, exist_ok=True)
                replace_text(target, content)
                written.append(target)
        except OSError as error:
            raise UnusableDirectory(f"cannot write {error.filename or directory}: {error.strerror or error}") from None
        return written

    def _rendered(self, template: str) -> str:
        if template == MANIFESTS:
            return self._manifests()
        folder = files("bayplan.faces.cli") / "templates" / "project"
        return self._filled((folder / f"{template}.tmpl").read_text(encoding="utf-8"))

    def _manifests(self) -> str:
        """Return the output of `bayplan manifests` for the project's image and configuration."""
        deployed = Deployed(
            image=f"registry.example/{self.name}:0.1.0",
            name=self.name,
            lease=("kube-system", self.name),
            files={CONFIGURATION_FILE: self._rendered("scheduler.yaml")},
            arguments=(f"--plugin={self.module}.plugins",),
        )
        what = f"{self.name}. Pods select it with schedulerName: {self.name}. Build its image with the Dockerfile."
        return stream(documents(deployed), what)

    def _filled(self, text: str) -> str:
        values = {
            "NAME": self.name,
            "MODULE": self.module,
            "PREFIX": self.prefix,
            "VERSION": version("bayplan"),
            "INSTALL": self.install,
        }
        for key, value in values.items():
            text = text.replace(f"__{key}__", value)
        return text


def _taken_modules() -> frozenset[str]:
    """Modules that a package with the same name would hide: the standard library's, and those that Bayplan needs."""
    needed = (re.match(r"[\w.-]+", requirement) for requirement in requires("bayplan") or ())
    return sys.stdlib_module_names | {match[0].lower().replace("-", "_") for match in needed if match}


def _suggestion(name: str) -> str:
    better = re.sub(r"[^a-z0-9]+", "-", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()).strip("-")[:63].strip("-")
    return f", as in {better}" if _LABEL.fullmatch(better) and better != name else ""
