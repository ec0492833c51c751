"""What is cut from an image, and what is compiled for it: both run in its build."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from tools.images import debugging

CHECKED, UNCHECKED = b"\x03\0\0\0", b"\x01\0\0\0"
"""The flags of bytecode that names the hash of its source"""
IMPORT = """
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location({name!r}, {path!r})
module = module_from_spec(spec)
spec.loader.exec_module(module)
print(module.MultiDict([("a", "1")])["a"])
"""


def test_a_library_without_sections_works(tmp_path):
    path = Path(importlib.util.find_spec("multidict._multidict").origin)
    library = path.read_bytes()
    if b".debug_info" not in library:
        pytest.skip("this wheel has no debugging information")
    cut = debugging.without_sections(library)
    assert len(cut) < len(library) / 2
    assert debugging.without_sections(cut) == cut
    (tmp_path / path.name).write_bytes(cut)
    program = IMPORT.format(name="multidict._multidict", path=str(tmp_path / path.name))
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "1\n"


def test_a_library_without_debugging_information_stays_as_it_is():
    for library in (b"", b"no library", Path(sys.executable).read_bytes().replace(b".debug_info", b".xxxxx_xxxx")):
        assert debugging.without_sections(library) == library


def test_what_is_imported_is_compiled(tmp_path):
    """Python's own modules are compared with their source, which a new version of the base may change."""
    program = "import click, selectors; from pathlib import Path; from tools.images.bytecode import compile_imported; "
    program += "compile_imported(Path('own')); print(selectors.__file__)"
    root = str(Path(debugging.__file__).parents[2])
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, env=environment, cwd=tmp_path, capture_output=True, text=True
    )

    def compiled(source, *folders):
        place = f"{source.with_suffix('')}.{sys.implementation.cache_tag}.pyc"
        return tmp_path.joinpath(*folders, place.removeprefix("/")).read_bytes()

    own = tmp_path.relative_to("/")
    assert compiled(Path(click.__file__))[4:8] == UNCHECKED
    assert compiled(Path(done.stdout.strip()), "own", own)[4:8] == CHECKED
