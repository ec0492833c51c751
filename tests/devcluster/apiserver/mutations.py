"""Changes to valid objects, for tests that send what clients shouldn't."""

from bayplan.core.api.kinds import ADDED_KINDS, GATED_KINDS, VERSIONED_KINDS
from bayplan.core.api.type_table import fields_of, table
from bayplan.core.versions import VERSIONS
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.kinds.catalog import catalog

KINDS = [resource.kind for resource in catalog(VERSIONED_KINDS)]
PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json", "application/apply-patch+yaml")


def serving(kind):
    """A server of the version that has a kind."""
    served = (each for each in VERSIONS if kind in {*ADDED_KINDS[each], *GATED_KINDS[each]})
    version = next(served, VERSIONS[0])
    return ApiServer(address=None, alpha=True, version=version)


TEXTS = (
    "", "a", "a/b", "-1", "0", "50%", "150%", "a b", "é", "10.0.0.1", "10.0.0.0/8", "::1", "*.a.b", "x" * 64, "x" * 300,
    "1Gi", "1e30", "12e-4", ".5", "+1", "-5", "1.0000000001", "1Ki2", "A_b", "a.b.c", "2026-01-01T00:00:00Z",
    "0001-01-01T00:00:00+14:00", "In", "NodePort", "Recreate", "All", "@daily", "\0",
)  # fmt: skip
NUMBERS = (0, 1, -1, 5, 65536, 2**31 - 1, -(2**31), 2**63 - 1, 1.5)
VALUES = (*TEXTS, *NUMBERS, None, True, False, [], {}, [None], [{}], {"a": None}, {"": ""}, ["a", "a"])

FROM_KUBERNETES = (
    "does not contain declared merge key",
    "resourceVersion should not be set on objects to be created",
    "strconv.ParseUint",
    "failed to create typed patch object",
    "failed to convert the applied configuration",
)
"""The errors that kube-apiserver has 500 for, too."""


def places(value, path=()):
    """The paths of all values inside a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def type_at(kind, path):
    """The type of the value at a path, "" if it is unknown."""
    name = kind
    for key in path:
        if (isinstance(key, int) and name.startswith("[]")) or name.startswith("{}"):
            name = name[2:]
        elif name in table() and key in fields_of(name):
            name = fields_of(name)[key].type
        else:
            return ""
    return name


def known_fields(kind, path):
    """The names of the fields that the value at a path may have."""
    name = type_at(kind.model, path)
    return sorted(fields_of(name)) if name in table() else []


def mutate(document, path, action, field, value):
    """Replaces, removes or adds (as `field`) the value at a path. Changes the document."""
    parent = document
    for key in path[:-1]:
        parent = parent[key]
    if action == "add" and field is not None and isinstance(parent[path[-1]], dict):
        parent[path[-1]][field] = value
    elif action == "remove" and isinstance(parent, dict):
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
