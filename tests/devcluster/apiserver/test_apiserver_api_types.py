"""The generated table of API types agrees with itself, with lightkube's models, and with the sources of Kubernetes."""

import os
import re
import runpy
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import lightkube.models
import msgspec
import pytest

from bayplan.api.kinds import ALPHA_KINDS, KINDS
from bayplan.devcluster.apiserver.api_types import Field, fields_of, go_name, table

MODULES = [
    module.name for module in iter_modules(lightkube.models.__path__) if re.search(r"_(v\d+|v1alpha2)$", module.name)
]
PLAIN = {"string": "str", "bytes": "str", "bool": "bool", "int32": "int", "int64": "int", "float64": "float"}
OPAQUE = {"object": {"RawExtension", "FieldsV1"}, "any": {"JSON"}}


def models(module):
    found = vars(import_module(f"lightkube.models.{module}"))
    for name, model in found.items():
        if isinstance(model, type) and issubclass(model, msgspec.Struct) and model.__module__.endswith(module):
            yield f"{module}.{name}", model


@pytest.fixture(scope="module")
def known():
    """The models of all types in the table."""
    return {name: model for module in MODULES for name, model in models(module) if name in table()}


def test_table_has_every_kind_of_lightkube():
    kinds = {
        name
        for module in MODULES
        if module != "coordination_v1alpha2"  # served behind a feature gate that Bayplan does not have
        for name, model in models(module)
        if {"kind", "metadata"} <= set(model.__struct_fields__) and not name.endswith("List")
    }
    assert kinds - table().keys() == set()
    assert {kind.model for kind in (*KINDS, *ALPHA_KINDS)} <= kinds


def test_fields_equal_the_models(known):
    assert len(known) > 450
    for name, model in known.items():
        assert fields_of(name).keys() == set(model.__struct_encode_fields__), name


def test_types_equal_the_models(known):
    for name, model in known.items():
        annotations = dict(zip(model.__struct_encode_fields__, model.__struct_fields__, strict=True))
        for key, field in fields_of(name).items():
            given = model.__annotations__[annotations[key]].removeprefix("Optional[").removesuffix("]")
            given = given.removeprefix("List[").removesuffix("]").rpartition(".")[2]
            kind = field.type.removeprefix("[]")
            expected = (
                {"dict", "Dict"}
                if kind.startswith("{}")
                else OPAQUE.get(kind, {PLAIN.get(kind, go_name(kind).rpartition(".")[2])})
            )
            assert given in expected, (name, key)


def test_required_fields_equal_the_models(known):
    for name, model in known.items():
        required = model.__struct_encode_fields__[: len(model.__struct_fields__) - len(model.__struct_defaults__)]
        assert {key for key, field in fields_of(name).items() if field.required} == set(required), name


def elements(field: Field) -> str:
    return field.type.replace("[]", "").replace("{}", "")


def test_field_numbers_are_unique():
    for name, fields in table().items():
        numbers = [field.number for field in fields.values() if field.number]
        assert len(numbers) == len(set(numbers)), name


def test_fields_refer_to_types_of_the_table():
    fields = [field for each in table().values() for field in each.values()]
    assert {elements(field) for field in fields if "." in elements(field)} <= table().keys()


def test_lists_are_merged_by_fields_of_their_elements():
    for name in table():
        for key, field in fields_of(name).items():
            keys = {*field.keys, *([field.patch_key] if field.patch_key else [])}
            assert not keys or keys <= fields_of(elements(field)).keys(), (name, key)
            assert (field.merge == "map") == bool(field.keys), (name, key)
            assert field.merge not in {"set", "map"} or field.type.startswith("[]"), (name, key)


def test_table_is_the_output_of_its_script(tmp_path):
    tree = os.environ.get("BAYPLAN_KUBERNETES_SOURCE")
    if not tree:
        pytest.skip("BAYPLAN_KUBERNETES_SOURCE names no source tree of Kubernetes 1.36")
    script = runpy.run_path(str(Path(__file__).parents[3] / "tools/api_tables.py"))
    assert script["Table"](Path(tree)).types == table()
