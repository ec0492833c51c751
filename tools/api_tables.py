"""Writes the table of the Kubernetes API's types that the embedded API server works from.

Run it from the top of this repository on a source tree of Kubernetes, of the release that `lightkube-models` has:

    python tools/api_tables.py /path/to/kubernetes

Kinds, required fields and the rules of merging come from the OpenAPI document (`api/openapi-spec/swagger.json`),
possible values from the generated OpenAPI code (the document lacks them), and field numbers from the .proto files.
The types of fields come from the Go sources: only they show which fields are pointers, which are left out when they
are empty, and what error messages call a type. ValueError or KeyError: the sources contradict each other.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import msgspec

from bayplan.core.api.type_table import Field, Fields, go_name

TABLE = Path(__file__).parents[1] / "src/bayplan/core/api/type_table.json"

VERSIONS = re.compile(r"\.(v\d+|scheduling\.v1alpha2)\.\w+$")
"""The API versions in the table: the stable ones, and those of bayplan.core.api.kinds.ALPHA_KINDS."""

Schema = dict[str, Any]
"""A schema of the OpenAPI document."""

LEAVES = {
    "string": "string", "bool": "bool", "int32": "int32", "int64": "int64", "float64": "float64", "[]uint8": "bytes",
    "resource.Quantity": "Quantity", "intstr.IntOrString": "IntOrString", "v1.Time": "Time",
    "v1.MicroTime": "MicroTime", "runtime.RawExtension": "object", "v1.FieldsV1": "object", "v1.JSON": "any",
    "v1.JSONSchemaPropsOrArray": "JSONSchemaPropsOrArray", "v1.JSONSchemaPropsOrBool": "JSONSchemaPropsOrBool",
    "v1.JSONSchemaPropsOrStringArray": "JSONSchemaPropsOrStringArray",
}  # fmt: skip
"""What the table calls the types that have no fields of their own in JSON, by the names that Go prints."""

OPENAPI_LEAVES = {
    "string": "string", "boolean": "bool", "string/byte": "bytes", "integer/int32": "int32",
    "integer/int64": "int64", "number/double": "float64",
}  # fmt: skip
"""What the table calls OpenAPI's types."""

_STRUCT = re.compile(r"^type (\w+) struct ?\{(?:\}|\n(.*?)^\})", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"^type (\w+) ([^\s{=]+)$", re.MULTILINE)
_IMPORT = re.compile(r'^(?:import)?\s+(?:(\w+) )?"(k8s\.io/[^"]+)"$', re.MULTILINE)
_MEMBER = re.compile(
    r'^\t(?:// \+default="(\w+)"\n(?:\t//.*\n)*\t)?(?:\w+ +)?([^\s/]+) +`(.*json:.*)`', re.MULTILINE
)  # the default, the type and the tags of a field
_TAG = re.compile(r'(\w+):"([^"]*)"')
_MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_DESCRIBED = re.compile(r"^func schema_k8sio_api_(\w+)\(", re.MULTILINE)
_PROPERTY = re.compile(r'^\t{5}"([^"]+)": \{$', re.MULTILINE)
_ENUM = re.compile(r"Enum: +\[\]interface\{\}\{(.*)\}")
_MEANINGS = re.compile(r'Description: +(".*\\n\\nPossible enum values:.*"),$', re.MULTILINE)
_MEANING = re.compile(r'^ - `("[^`]*")`(?: (.*))?$', re.MULTILINE)
_NUMBER = re.compile(r"^  \w.* (\w+) = (\d+);", re.MULTILINE)


class Package:
    """The declarations of a Go package."""

    def __init__(self, tree: Path, path: str) -> None:
        *_, group, self.name = path.split("/")
        self.module = f"{group}_{self.name}"
        self.openapi = f"io.{path.replace('k8s.io', 'k8s').replace('/', '.')}"
        self.structs: dict[str, str] = {}
        self.named: dict[str, str] = {}
        self.imports: dict[str, str] = {}
        self._folder = tree / "staging/src" / path
        for file in sorted(self._folder.glob("*.go")):
            if not re.match(r"zz_|generated|.*_test\.go", file.name):
                text = file.read_text(encoding="utf-8")
                self.structs |= dict(_STRUCT.findall(text))
                self.named |= dict(_NAMED.findall(text))
                self.imports |= {alias or target.rpartition("/")[2]: target for alias, target in _IMPORT.findall(text)}

    @cached_property
    def numbers(self) -> dict[str, dict[str, int]]:
        """The field numbers in the package's .proto file: by message and by name."""
        text = (self._folder / "generated.proto").read_text(encoding="utf-8")
        return {
            message: {name: int(number) for name, number in _NUMBER.findall(body)}
            for message, body in _MESSAGE.findall(text)
        }


def read_enums(tree: Path) -> dict[tuple[str, str], dict[str, str]]:
    """The possible values of fields with their meanings: by type, named as in the table, and by JSON name."""
    text = (tree / "pkg/generated/openapi/zz_generated.openapi.go").read_text(encoding="utf-8")
    _, *functions = _DESCRIBED.split(text)
    found = {}
    for name, body in zip(functions[::2], functions[1::2], strict=True):
        group, version, kind = name.rsplit("_", 2)
        _, *properties = _PROPERTY.split(body)
        for field, schema in zip(properties[::2], properties[1::2], strict=True):
            if match := _ENUM.search(schema):
                found[f"{group}_{version}.{kind}", field] = dict.fromkeys(json.loads(f"[{match[1]}]"), "")
                if described := _MEANINGS.search(schema):
                    meanings = _MEANING.findall(json.loads(described[1]).partition("Possible enum values:")[2])
                    found[f"{group}_{version}.{kind}", field] |= {json.loads(value): text for value, text in meanings}
    return found


class Table:
    """The types that the API's kinds consist of: `types` has their fields, by names like `core_v1.Pod`."""

    def __init__(self, tree: Path) -> None:
        self.types: dict[str, Fields] = {}
        self._tree = tree
        self._packages: dict[str, Package] = {}
        self._enums = read_enums(tree)
        document = json.loads((tree / "api/openapi-spec/swagger.json").read_text(encoding="utf-8"))
        self._definitions: dict[str, Schema] = document["definitions"]
        for name, definition in self._definitions.items():
            if "x-kubernetes-group-version-kind" in definition and VERSIONS.search(name) and not name.endswith("List"):
                path, _, kind = name.removeprefix("io.k8s.").rpartition(".")
                self._add(self._package(f"k8s.io/{path.replace('.', '/')}"), kind)

    def _package(self, path: str) -> Package:
        if path not in self._packages:
            self._packages[path] = Package(self._tree, path)
        return self._packages[path]

    def _add(self, package: Package, name: str, embedder: Schema | None = None) -> str:
        """Adds a struct and those that its fields refer to. Returns its name in the table.

        `embedder`: the schema of the type that the struct is embedded in, which has the struct's fields as well.
        """
        key = f"{package.module}.{name}"
        if key in self.types:
            return key
        fields: Fields = self.types.setdefault(key, {})
        schema = self._definitions.get(f"{package.openapi}.{name}") or embedder or {}
        properties = schema.get("properties", {})
        numbers = dict(package.numbers.get(name, {}))
        for default, go, written in _MEMBER.findall(package.structs[name]):
            if go.endswith("TypeMeta"):
                fields["kind"] = fields["apiVersion"] = Field("string")
                continue
            tags = dict(_TAG.findall(written))
            json_name, *options = tags["json"].split(",")
            number = numbers.pop(tags["protobuf"].partition("name=")[2].partition(",")[0] or go[0].lower() + go[1:])
            if json_name:
                required = json_name in schema.get("required", ())
                described = {**properties[json_name], "required": required, "default": default}
                described["enum"] = self._enums.get((key, json_name), {})
                fields[json_name] = self._field(package, go, options, described, number)
            else:
                embedded = self._add(package, go, schema)
                fields[f"+{embedded}"] = Field(embedded, number)
        if numbers or (schema is not embedder and self._names(key) != properties.keys()):
            raise ValueError(
                f"{key}: Go has {[*self._names(key)]}, OpenAPI {[*properties]}, and .proto {[*numbers]} more"
            )
        return key

    def _names(self, key: str) -> set[str]:
        """The JSON names of a type's fields, with those of embedded types."""
        embedded = [self._names(name[1:]) for name in self.types[key] if name.startswith("+")]
        return {name for name in self.types[key] if not name.startswith("+")}.union(*embedded)

    def _field(self, package: Package, go: str, options: list[str], schema: Schema, number: int) -> Field:
        kind, printed = self._resolve(package, go)
        if kind != self._described(schema):
            raise ValueError(f"{go} of {package.module} is {kind} in Go and {schema} in OpenAPI")
        target = self._definitions.get(schema.get("$ref", "").removeprefix("#/definitions/"), {})
        merge = schema.get("x-kubernetes-list-type") or (target | schema).get("x-kubernetes-map-type")
        return Field(
            type=kind,
            number=number,
            go="" if printed == go_name(kind) or kind in {"any", "object"} else printed,
            empty=_empty(kind, options, pointer=go.startswith("*")),
            patch=schema.get("x-kubernetes-patch-strategy", ""),
            patch_key=schema.get("x-kubernetes-patch-merge-key", ""),
            merge=merge if merge in {"set", "map"} or (merge == "atomic" and not kind.startswith("[]")) else "",
            keys=tuple(schema.get("x-kubernetes-list-map-keys", ())),
            required=schema["required"],
            enum=schema["enum"],
            default=schema["default"],
        )

    def _resolve(self, package: Package, go: str) -> tuple[str, str]:
        """What the table calls a Go type, and what Go prints for it."""
        go = go.removeprefix("*").replace("[]byte", "[]uint8")
        if go in LEAVES:
            return LEAVES[go], go
        if go.startswith("[]"):
            kind, printed = self._resolve(package, go[2:])
            return f"[]{kind}", f"[]{printed}"
        if go.startswith("map["):
            key, _, value = go[4:].partition("]")
            kind, printed = self._resolve(package, value)
            return "{}" + kind, f"map[{self._resolve(package, key)[1]}]{printed}"
        home, _, name = go.rpartition(".")
        package = self._package(package.imports[home]) if home else package
        printed = f"{package.name}.{name}"
        if printed in LEAVES:
            return LEAVES[printed], printed
        if name in package.structs:
            return self._add(package, name), printed
        return self._resolve(package, package.named[name])[0], printed

    def _described(self, schema: Schema) -> str:
        """What the table calls the type of an OpenAPI schema."""
        if "$ref" in schema:
            *_, group, version, name = schema["$ref"].split(".")
            return LEAVES.get(f"{version}.{name}") or f"{group}_{version}.{name}"
        if "items" in schema:
            return "[]" + self._described(schema["items"])
        if "additionalProperties" in schema:
            return "{}" + self._described(schema["additionalProperties"])
        return OPENAPI_LEAVES["/".join(schema[each] for each in ("type", "format") if each in schema)]


def _empty(kind: str, options: list[str], *, pointer: bool) -> Literal["", "kept", "null", "zero"]:
    """What Go writes for an empty value, as `Field.empty` has it."""
    scalar = kind in OPENAPI_LEAVES.values() and kind != "bytes"
    if pointer or scalar or kind.startswith(("[]", "{}")) or kind == "bytes":
        if "omitempty" in options:
            return "kept" if pointer and scalar else ""
        return "zero" if scalar and not pointer else "null"
    if "omitzero" in options:
        return ""
    return "null" if kind in {"any", "object", "Time", "MicroTime"} else "zero"  # omitempty leaves out no structs


def main() -> None:
    """Writes the table of the tree that the command line names."""
    table = Table(Path(sys.argv[1])).types
    lines = [f"  {json.dumps(name)}: {msgspec.json.encode(table[name]).decode()}" for name in sorted(table)]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
