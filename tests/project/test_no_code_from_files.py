"""Nothing that is read is run: the places in the sources that load code or could, each with what it loads."""

import ast
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"

ALLOWED = {
    # What the user names on the command line, in a configuration or in a sweep's file.
    ("bayplan/core/config/plugin_files.py", "import_module"),
    ("bayplan/core/config/plugin_files.py", "spec_from_file_location"),
    ("bayplan/core/config/plugin_files.py", "module_from_spec"),
    ("bayplan/core/config/plugin_files.py", "exec_module"),
    # Fixed names.
    ("bayplan/core/api/models.py", "import_module"),  # of lightkube, for names in the tables of kinds
    ("bayplan/benchmarking/profiling.py", "run_module"),
    ("bayplan/answers/insight/insight.py", "import_named"),  # of the list of questions
    ("bayplan/answers/insight/question_types.py", "import_named"),
    ("bayplan/faces/cli/__init__.py", "import_named"),
    ("bayplan_devcluster/apiserver/validation/rules.py", "import_module"),  # for names in its own rules.json
    ("bayplan/foundations/lazy.py", "exec_module"),
    ("bayplan/foundations/lazy.py", "find_spec"),
    ("bayplan/foundations/lazy.py", "import_module"),
    ("bayplan/foundations/lazy.py", "import_named"),
    ("bayplan/foundations/lazy.py", "module_from_spec"),
    ("bayplan/faces/cli/perf.py", "find_spec"),  # whether a profiler is installed
    # Sources of fixed texts and generated names.
    ("bayplan/core/devices/cel/writing.py", "exec"),
    ("bayplan/core/devices/cel/writing.py", "compile"),
}
LOADS = {
    "__import__",
    "compile",
    "eval",
    "exec",
    "exec_module",
    "execfile",
    "find_spec",
    "full_load",
    "full_load_all",
    "import_module",
    "import_named",
    "load",
    "load_all",
    "load_module",
    "module_from_spec",
    "run_module",
    "run_path",
    "spec_from_file_location",
    "unsafe_load",
    "unsafe_load_all",
}
"""Names of functions that run code, or that make objects of any class."""
LOADERS = {"yaml", "numpy", "np"}
"""What has a function `load` that may make objects of any class."""
MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "jsonpickle", "code", "codeop"}
PICKLES = {"allow_pickle", "auto_pickle"}
"""Arguments of numpy and pyarrow that let files have pickled objects."""


def uses(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            owner = getattr(getattr(function, "value", None), "id", "")
            if (
                name in LOADS
                and (name != "compile" or not owner)  # others are of expressions
                and (name != "load" or owner in LOADERS)  # an entry point's, in plugin_files.py, isn't seen here
                and not (name == "find_spec" and owner == "finder")  # it is asked for the file alone
            ):
                yield name
            yield from (each.arg for each in node.keywords if each.arg in PICKLES)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name.partition(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in MODULES:
            yield node.module


def test_code_is_loaded_in_known_places_only():
    found = {
        (str(path.relative_to(SOURCES)), name)
        for path in SOURCES.rglob("*.py")
        for name in uses(ast.parse(path.read_text()))
    }
    assert found - ALLOWED == set()
    assert ALLOWED - found == set(), "these places are gone: remove them here"
    readers = {str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.py") if "entry_points" in path.read_text()}
    assert readers == {
        "bayplan/core/config/plugin_files.py",
        "bayplan/core/config/shipped_plugins.py",  # those of Bayplan's own distribution, within bayplan_plugins
    }


def test_a_place_is_found():
    assert set(uses(ast.parse("import pickle\nyaml.unsafe_load(x)\nnumpy.load(f, allow_pickle=True)"))) == {
        "pickle",
        "unsafe_load",
        "load",
        "allow_pickle",
    }
