"""Compiles what Bayplan imports, for an image whose root may be read-only.

Libraries also have modules that nothing here imports, and whose bytecode would be a tenth of the image. The bytecode is
the same in each build of a commit: it is bound to no time, and is loaded without a look at its source. It runs in the
build of an image, which has no other file of this folder.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import files
from pathlib import Path
from pkgutil import walk_packages
from py_compile import PycInvalidationMode, compile  # noqa: A004 - its name


def import_all(package: str) -> None:
    """Import the modules of a package, but for those that need a library of an extra that isn't there."""
    for module in walk_packages(import_module(package).__path__, f"{package}."):
        if module.name.endswith(".__main__"):
            continue
        try:
            import_module(module.name)
        except ModuleNotFoundError as error:
            sys.stdout.write(f"{module.name} has no bytecode without {error.name}\n")


def packages_of(distribution: str) -> list[str]:
    """Return the packages that a distribution installs."""
    roots = {path.parts[0] for path in files(distribution) or () if path.name == "__init__.py"}
    return sorted(roots)


def main() -> None:
    """Compile each module that has been imported and isn't Python's own."""
    for package in packages_of("bayplan"):
        import_all(package)
    known = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    modules = {Path(file) for file in known if file}
    for file in sorted(modules):
        if file.suffix == ".py" and file.is_relative_to(sys.prefix):
            compile(str(file), doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)


if __name__ == "__main__":
    main()
