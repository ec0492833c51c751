"""Compiles what Bayplan imports, for an image whose root may be read-only: `bytecode.py FOLDER`.

Libraries also have modules that nothing here imports, and whose bytecode would be a tenth of the image. The bytecode is
the same in each build of a commit: it is bound to no time. Bayplan's and its libraries' is loaded without a look at the
source. That of Python's own modules is written below FOLDER, at its place in the image: many bases have none, or one of
another time. It is compared with its source, which a new version of the base may change. It runs in the build of an
image, which has no other file of this folder.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.metadata import files
from importlib.util import cache_from_source
from pathlib import Path
from pkgutil import walk_packages
from py_compile import PycInvalidationMode, compile  # noqa: A004 - its name

WHILE_RUNNING = ("cryptography.hazmat.backends.openssl.backend", "encodings.idna", "encodings.utf_8_sig")
"""What libraries import only when they are used; `make test-image` names what is missing here"""


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


def compile_imported(folder: Path) -> None:
    """Compile each module that has been imported."""
    known = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    for file in sorted({Path(file) for file in known if file and file.endswith(".py")}):
        if file.is_relative_to(sys.prefix):
            compile(str(file), doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
        elif file.is_relative_to(sys.base_prefix):
            place = folder / cache_from_source(str(file.parent.resolve() / file.name)).removeprefix("/")
            compile(str(file), str(place), doraise=True, invalidation_mode=PycInvalidationMode.CHECKED_HASH)


def main() -> None:
    """Compile what the packages of Bayplan import."""
    (folder,) = sys.argv[1:]
    for package in packages_of("bayplan"):
        import_all(package)
    for module in WHILE_RUNNING:
        import_module(module)
    compile_imported(Path(folder))


if __name__ == "__main__":
    main()
