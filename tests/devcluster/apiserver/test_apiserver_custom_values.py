"""Pruning, defaulting and validation by the schemas of custom resources."""

import pytest

from bayplan.core.api.kinds import Kind
from bayplan.core.api.patterns import InvalidPattern, compile_pattern
from bayplan_devcluster.apiserver.custom.structural import StructuralSchema, fill_defaults, prune
from bayplan_devcluster.apiserver.custom.structures import check_structure
from bayplan_devcluster.apiserver.custom.values import Place, check_value
from bayplan_devcluster.apiserver.jsonpath import InvalidPath, compile_path
from bayplan_devcluster.apiserver.scalars import go_float

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
KIND = Kind("example.com", "v1", "Gang", "gangs", "gang", namespaced=True, model="")
FREE = "x-kubernetes-preserve-unknown-fields"
ONE_OF = '<nil>: Invalid value: "": "f" must validate one and only one schema (oneOf)'
EITHER = {"x-kubernetes-int-or-string": True}


def fields(**properties):
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "value", "kept", "unknown"),
    [
        pytest.param(fields(a=TEXT), {"a": "x", "b": 1}, {"a": "x"}, ["b"], id="unknown"),
        pytest.param(fields(a=fields(b=TEXT)), {"a": {"c": 1}}, {"a": {}}, ["a.c"], id="nested"),
        pytest.param(fields(a={"type": "array", "items": fields(b=TEXT)}), {"a": [{"b": "x"}, {"c": 1}]},
                     {"a": [{"b": "x"}, {}]}, ["a[1].c"], id="element"),
        pytest.param(fields(a={"type": "object", "additionalProperties": fields(b=TEXT)}), {"a": {"k": {"c": 1}}},
                     {"a": {"k": {}}}, ["a.k.c"], id="map"),
        pytest.param(fields(a={"type": "object", FREE: True, **fields(b=fields(c=TEXT))}),
                     {"a": {"x": {"y": 1}, "b": {"d": 1}}}, {"a": {"x": {"y": 1}, "b": {}}}, ["a.b.d"], id="preserved"),
        pytest.param(fields(a={FREE: True}), {"a": [{"x": 1}]}, {"a": [{"x": 1}]}, [], id="preserved list"),
        pytest.param(fields(a={"type": "object", "x-kubernetes-embedded-resource": True, **fields(spec=fields())}),
                     {"a": {"kind": "K", "apiVersion": "v1", "metadata": {"name": "n"}, "other": 1}},
                     {"a": {"kind": "K", "apiVersion": "v1", "metadata": {"name": "n"}}}, ["a.other"], id="embedded"),
        pytest.param(fields(a=TEXT, b={**TEXT, "nullable": True}), {"a": None, "b": None}, {"b": None}, [], id="null"),
        pytest.param(fields(a={"type": "object"}), {"a": {"b": 1}}, {"a": {}}, ["a.b"], id="object without fields"),
    ],
)  # fmt: skip
def test_unknown_fields_are_pruned(schema, value, kept, unknown):
    found = []
    assert prune(schema, value, "", found) == kept
    assert found == unknown


@pytest.mark.parametrize(
    ("schema", "value", "filled"),
    [
        pytest.param(fields(a={**TEXT, "default": "x"}), {}, {"a": "x"}, id="missing"),
        pytest.param(fields(a={**TEXT, "default": "x"}), {"a": "y"}, {"a": "y"}, id="given"),
        pytest.param(fields(a={**TEXT, "default": "x"}), {"a": None}, {"a": "x"}, id="null"),
        pytest.param(fields(a={**TEXT, "default": "x", "nullable": True}), {"a": None}, {"a": None}, id="nullable"),
        pytest.param(fields(a=fields(b={**TEXT, "default": "x"})), {}, {}, id="no parent"),
        pytest.param(fields(a={**fields(b={**TEXT, "default": "x"}), "default": {}}), {}, {"a": {"b": "x"}},
                     id="defaulted parent"),
        pytest.param(fields(a={"type": "array", "items": fields(b={**NUMBER, "default": 0})}), {"a": [{}]},
                     {"a": [{"b": 0}]}, id="element"),
        pytest.param(fields(a={"type": "object", "additionalProperties": {**NUMBER, "default": 1}}),
                     {"a": {"k": None}}, {"a": {"k": 1}}, id="map"),
    ],
)  # fmt: skip
def test_defaults_are_filled_in(schema, value, filled):
    fill_defaults(schema, value)
    assert value == filled


def test_defaults_are_not_shared():
    schema = fields(a={"type": "object", "default": {"b": []}, FREE: True})
    first, second = {}, {}
    fill_defaults(schema, first)
    first["a"]["b"].append(1)
    fill_defaults(schema, second)
    assert second == {"a": {"b": []}}


@pytest.mark.parametrize(
    ("schema", "value", "errors"),
    [
        pytest.param(NUMBER, "x", ['f: Invalid value: "string": f in body must be of type integer: "string"'],
                     id="type"),
        pytest.param(NUMBER, True, ['f: Invalid value: "boolean": f in body must be of type integer: "boolean"'],
                     id="boolean for a number"),
        pytest.param(NUMBER, 2.0, [], id="integer as a float"),
        pytest.param(NUMBER, 2.5, ['f: Invalid value: "number": f in body must be of type integer: "number"'],
                     id="fraction"),
        pytest.param({"type": "number"}, 2, [], id="integer for a number"),
        pytest.param({"type": "object"}, None, ['f: Invalid value: "null": f in body must be of type object: "null"'],
                     id="null"),
        pytest.param({"type": "object", "nullable": True}, None, [], id="nullable"),
        pytest.param(EITHER, 1, [], id="int or string: int"),
        pytest.param(EITHER, "1", [], id="int or string: string"),
        pytest.param(EITHER, [], ['f: Invalid value: "array": f in body must be of type integer,string: "array"'],
                     id="int or string: neither"),
        pytest.param({**NUMBER, "minimum": 1}, 0,
                     ["f: Invalid value: 0: f in body should be greater than or equal to 1"], id="minimum"),
        pytest.param({**NUMBER, "minimum": 1, "exclusiveMinimum": True}, 1,
                     ["f: Invalid value: 1: f in body should be greater than 1"], id="exclusive minimum"),
        pytest.param({**NUMBER, "maximum": 5}, 6,
                     ["f: Invalid value: 6: f in body should be less than or equal to 5"], id="maximum"),
        pytest.param({**NUMBER, "maximum": 5, "exclusiveMaximum": True}, 5,
                     ["f: Invalid value: 5: f in body should be less than 5"], id="exclusive maximum"),
        pytest.param({**NUMBER, "multipleOf": 3}, 4, ["f: Invalid value: 4: f in body should be a multiple of 3"],
                     id="multiple"),
        pytest.param({**NUMBER, "format": "int32"}, 2**31,
                     ['<nil>: Invalid value: "": Checked value must be of type integer with format int32 in f'],
                     id="int32"),
        pytest.param({**TEXT, "minLength": 2}, "x",
                     ['f: Invalid value: "x": f in body should be at least 2 chars long'], id="short"),
        pytest.param({**TEXT, "maxLength": 2}, "xyz", ["f: Too long: may not be more than 2 bytes"], id="long"),
        pytest.param({**TEXT, "pattern": "^a$"}, "a\n", ['f: Invalid value: "a\\n": f in body should match \'^a$\''],
                     id="pattern"),
        pytest.param({**TEXT, "enum": ["a", "b"]}, "c", ['f: Unsupported value: "c": supported values: "a", "b"'],
                     id="enum"),
        pytest.param({**TEXT, "format": "date-time"}, "yesterday",
                     ['f: Invalid value: "yesterday": f in body must be of type date-time: "yesterday"'], id="format"),
        pytest.param({"type": "array", "items": TEXT, "minItems": 1}, [],
                     ["f: Invalid value: 0: f in body should have at least 1 items"], id="few items"),
        pytest.param({"type": "array", "items": TEXT, "maxItems": 1}, ["a", "b"],
                     ["f: Too many: 2: must have at most 1 items"], id="many items"),
        pytest.param({"type": "array", "items": TEXT}, ["a", 1],
                     ['f[1]: Invalid value: "integer": f[1] in body must be of type string: "integer"'], id="element"),
        pytest.param({"type": "object", "additionalProperties": NUMBER}, {"k": "v"},
                     ['f.k: Invalid value: "string": f.k in body must be of type integer: "string"'], id="map"),
        pytest.param({**fields(a=TEXT), "required": ["a", "b"]}, {"a": "x"}, ["f.b: Required value"], id="required"),
        pytest.param({"anyOf": [{"minimum": 5}, {"maximum": 1}]}, 3,
                     ['<nil>: Invalid value: "": "f" must validate at least one schema (anyOf)',
                      "f: Invalid value: 3: f in body should be greater than or equal to 5"], id="any of"),
        pytest.param({"oneOf": [{"minimum": 1}, {"minimum": 2}]}, 3,
                     [f"{ONE_OF}. Found 2 valid alternatives"], id="one of"),
        pytest.param({"not": {"minimum": 1}}, 3,
                     ['<nil>: Invalid value: "": "f" must not validate the schema (not)'], id="not"),
        pytest.param({"allOf": [{"minimum": 4}, {"minimum": 2}]}, 3,
                     ["f: Invalid value: 3: f in body should be greater than or equal to 4",
                      '<nil>: Invalid value: "": "f" must validate all the schemas (allOf)'], id="all of"),
    ],
)  # fmt: skip
def test_invalid_values_have_the_messages_of_upstream(schema, value, errors):
    assert [str(error) for error in check_value(schema, value, Place("f"))] == errors


def test_unchanged_values_are_valid_in_an_update():
    schema = fields(a={**NUMBER, "minimum": 1}, b=NUMBER)
    assert list(check_value(schema, {"a": 0, "b": 2}, Place(), {"a": 0, "b": 1})) == []
    assert len(list(check_value(schema, {"a": -1, "b": 1}, Place(), {"a": 0, "b": 1}))) == 1


@pytest.mark.parametrize(
    ("schema", "value", "errors"),
    [
        ({"x-kubernetes-list-type": "set"}, ["a", "b", "a"], ['f[2]: Duplicate value: "a"']),
        ({"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}, [{"k": 1}, {"k": 1, "v": 2}],
         ['f[1]: Duplicate value: {"k":1}']),
        ({"x-kubernetes-embedded-resource": True}, {"kind": ""},
         ["f.apiVersion: Required value", 'f.kind: Invalid value: "": must not be empty']),
    ],
    ids=["set", "map", "embedded resource"],
)  # fmt: skip
def test_list_types_and_embedded_resources_are_validated(schema, value, errors):
    assert [str(error) for error in check_structure(schema, value, Place("f"))] == errors


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("byte", "YQ==", "a"),
        ("cidr", "10.0.0.1/8", "10.0.0.1"),
        ("date", "2026-01-31", "2026-02-31"),
        ("date-time", "2026-01-01T00:00:00.5Z", "2026-01-01"),
        ("duration", "1h30m", "soon"),
        ("email", "a@example.com", "a"),
        ("hostname", "Node-1.example.com", "-"),
        ("ipv4", "10.0.0.1", "::1"),
        ("ipv6", "::1", "10.0.0.1"),
        ("k8s-short-name", "a-b", "a.b"),
        ("k8s-long-name", "a.b", "A.b"),
        ("mac", "00:00:5e:00:53:01", "00:00"),
        ("uri", "https://example.com", "example"),
        ("uuid", "a8ff6b4a-96b2-45d3-8053-98f3dbec696f", "a8ff"),
        ("uuid4", "a8ff6b4a-96b2-45d3-8053-98f3dbec696f", "a8ff6b4a-96b2-55d3-8053-98f3dbec696f"),
    ],
)
def test_format_accepts_and_rejects(name, right, wrong):
    schema = {"type": "string", "format": name}
    assert list(check_value(schema, right, Place("f"))) == []
    assert f"f in body must be of type {name}" in str(next(check_value(schema, wrong, Place("f"))))


def test_unknown_format_is_ignored():
    assert list(check_value({"type": "string", "format": "quantity"}, "x", Place("f"))) == []
    assert list(check_value({"type": "integer", "format": "uint8"}, 300, Place("f"))) == []


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [3]),
        (".spec.missing", []),
        (".items[0].name", ["a"]),
        (".items[-1].name", ["b"]),
        (".items[7].name", []),
        (".items[*].name", ["a", "b"]),
        (".items[0:1].name", ["a"]),
        ('.items[?(@.name=="b")].on', [True]),
        (".items[?(@.on)].name", ["b"]),
        (".items[?(@.weight > 1)].name", ["b"]),
        (r".labels.example\.com/tier", ["web"]),
        (".labels['example.com/tier']", ["web"]),
    ],
)
def test_path_finds_values(path, found):
    items = [{"name": "a", "weight": 1}, {"name": "b", "weight": 2, "on": True}]
    obj = {"spec": {"size": 3}, "items": items, "labels": {"example.com/tier": "web"}}
    assert compile_path(path)(obj) == found


@pytest.mark.parametrize("path", ["spec", ".a[", ".a[x]", ".a[?(@.b == c)]"])
def test_invalid_path_is_rejected(path):
    with pytest.raises(InvalidPath):
        compile_path(path)


@pytest.mark.parametrize(
    ("pattern", "fits", "differs"),
    [
        ("^[[:alpha:]]+$", "abc", "ab1"),
        (r"^\d$", "1", "\u0661"),
        (r"\Aa\z", "a", "a\n"),
        (r"^[$]$", "$", "x"),
        (r"^\Qa.b\E$", "a.b", "axb"),
        ("^[[]$", "[", "x"),
        ("^(?i)(abort|warn)?$", "Abort", "abort "),
        ("a(?i:b)c", "aBc", "ABC"),
        (r"^\p{Lu}\pN*$", "\u00c91", "\u00e91"),
        ("^(?<word>\\w+)$", "word", "w\u00e9rd"),
        (r"^\x{1F600}$", "\U0001f600", "x"),
        ("(?sU)^a.+$", "a\nb", "a"),
    ],
)
def test_pattern_has_the_syntax_of_go(pattern, fits, differs):
    assert compile_pattern(pattern).search(fits)
    assert not compile_pattern(pattern).search(differs)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("a(", "missing closing ): `a(`"),
        (")", "unexpected ): `)`"),
        ("[a", "missing closing ]: `[a`"),
        ("[z-a]", "invalid character class range: `z-a`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("\\", "trailing backslash at end of expression: ``"),
        (r"a\1", r"invalid escape sequence: `\1`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
    ],
)
def test_invalid_pattern_is_rejected_with_the_message_of_go(pattern, message):
    with pytest.raises(InvalidPattern) as caught:
        compile_pattern(pattern)

    assert str(caught.value) == f"error parsing regexp: {message}"


@pytest.mark.parametrize(
    ("number", "shown"),
    [(5.0, "5"), (0.5, "0.5"), (1e6, "1e+06"), (123456.0, "123456"), (-2.5e-7, "-2.5e-07"), (0.0, "0")],
)
def test_floats_are_printed_as_go_prints_them(number, shown):
    assert go_float(number) == shown


def test_applied_configuration_is_merged_by_list_types():
    ports = {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"],
             "items": fields(port=NUMBER, protocol={**TEXT, "default": "TCP"}, name=TEXT)}  # fmt: skip
    schema = fields(
        ports=ports,
        tags={"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        args={"type": "array", "items": TEXT},
        box={**fields(a=TEXT, b=TEXT), "x-kubernetes-map-type": "atomic"},
    )
    obj = {
        "metadata": {"name": "o", "labels": {"a": "1"}, "finalizers": ["x/y"]},
        "ports": [{"port": 80, "protocol": "TCP", "name": "http"}, {"port": 81}],
        "tags": ["a"],
        "args": ["x"],
        "box": {"a": "1"},
    }
    change = {
        "metadata": {"labels": {"b": "2"}, "finalizers": ["z/y"]},
        "ports": [{"port": 80, "name": "web"}, {"port": 80, "protocol": "UDP"}],
        "tags": ["b", "a"],
        "args": ["y"],
        "box": {"b": "2"},
    }
    merged = StructuralSchema(KIND, schema).apply(obj, change)
    assert merged["ports"] == [
        {"port": 80, "protocol": "TCP", "name": "web"},
        {"port": 81},
        {"port": 80, "protocol": "UDP"},
    ]
    assert (merged["tags"], merged["args"], merged["box"]) == (["a", "b"], ["y"], {"b": "2"})
    assert merged["metadata"]["labels"] == {"a": "1", "b": "2"}
    assert sorted(merged["metadata"]["finalizers"]) == ["x/y", "z/y"]


def test_normalized_body_has_metadata_and_known_fields():
    body = {"kind": "Gang", "metadata": {"name": "g", "colour": "red"}, "spec": {"size": 1, "taste": 2}}
    done, unknown = StructuralSchema(KIND, fields(spec=fields(size=NUMBER))).normalize(body)
    assert done == {"metadata": {"name": "g"}, "spec": {"size": 1}}
    assert unknown == ["metadata.colour", "spec.taste"]
