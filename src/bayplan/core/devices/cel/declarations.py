"""The functions of selectors with their overloads, and the variables and types.

Mirrors the environment for stored expressions in Kubernetes 1.36 (k8s.io/apiserver/pkg/cel/environment/base.go) and its
extension in k8s.io/dynamic-resource-allocation/cel/compile.go. The overloads are in upstream's order. The name of a
method starts with a dot, and its receiver is the first argument. A word in capitals stands for each type of a group.
"""

from __future__ import annotations

from dataclasses import dataclass

from bayplan.core.devices.cel import celtypes as t

_GROUPS = {
    "ORDERED": ["int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes"],
    "SUMMABLE": ["int", "uint", "double", "duration"],
    "CONVERTED": ["string", "bool", "bytes", "double", "duration", "int", "timestamp", "uint", "ip", "cidr"],
}

_OPERATORS = """
!_: bool -> bool
_==_: A, A -> bool
_!=_: A, A -> bool
_+_: bytes, bytes -> bytes | double, double -> double | duration, duration -> duration
_+_: duration, timestamp -> timestamp | timestamp, duration -> timestamp | int, int -> int
_+_: list(A), list(A) -> list(A) | string, string -> string | uint, uint -> uint
_/_: double, double -> double | int, int -> int | uint, uint -> uint
_%_: int, int -> int | uint, uint -> uint
_*_: double, double -> double | int, int -> int | uint, uint -> uint
-_: double -> double | int -> int
_-_: double, double -> double | duration, duration -> duration | int, int -> int
_-_: timestamp, duration -> timestamp | timestamp, timestamp -> duration | uint, uint -> uint
_[_]: list(A), int -> A | map(A, B), A -> B | optional(list(A)), int -> optional(A)
_[_]: optional(map(A, B)), A -> optional(B)
_[?_]: list(A), int -> optional(A) | optional(list(A)), int -> optional(A) | map(A, B), A -> optional(B)
_[?_]: optional(map(A, B)), A -> optional(B)
@in: A, list(A) -> bool | A, map(A, B) -> bool
_?_:_: bool, A, A -> A
"""

_CONVERSIONS = """
type: A -> type(A)
bool: bool -> bool | string -> bool
bytes: bytes -> bytes | string -> bytes
double: double -> double | int -> double | string -> double | uint -> double
duration: duration -> duration | int -> duration | string -> duration
dyn: A -> dyn
int: int -> int | double -> int | duration -> int | string -> int | timestamp -> int | uint -> int
string: CONVERTED -> string
timestamp: timestamp -> timestamp | int -> timestamp | string -> timestamp
uint: uint -> uint | double -> uint | int -> uint | string -> uint
optional.of: A -> optional(A)
optional.ofNonZeroValue: A -> optional(A)
optional.none:  -> optional(A)
.value: optional(A) -> A
.hasValue: optional(A) -> bool
.or: optional(A), optional(A) -> optional(A)
.orValue: optional(A), A -> A
optional.unwrap: list(optional(A)) -> list(A)
.unwrapOpt: list(optional(A)) -> list(A)
"""

_STRINGS = """
.contains: string, string -> bool
.endsWith: string, string -> bool
.startsWith: string, string -> bool
matches: string, string -> bool
.matches: string, string -> bool
.find: string, string -> string
.findAll: string, string -> list(string) | string, string, int -> list(string)
.charAt: string, int -> string
.lowerAscii: string -> string
.upperAscii: string -> string
.replace: string, string, string -> string | string, string, string, int -> string
.split: string, string -> list(string) | string, string, int -> list(string)
.substring: string, int -> string | string, int, int -> string
.trim: string -> string
.format: string, list(dyn) -> string
strings.quote: string -> string
.join: list(string) -> string | list(string), string -> string
"""

_LISTS = """
size: bytes -> int | list(A) -> int | map(A, B) -> int | string -> int
.size: bytes -> int | list(A) -> int | map(A, B) -> int | string -> int
.last: list(A) -> optional(A)
.first: list(A) -> optional(A)
.isSorted: list(ORDERED) -> bool
.max: list(ORDERED) -> ORDERED
.min: list(ORDERED) -> ORDERED
.sum: list(SUMMABLE) -> SUMMABLE
.indexOf: list(A), A -> int | string, string -> int | string, string, int -> int
.lastIndexOf: list(A), A -> int | string, string -> int | string, string, int -> int
.slice: list(A), int, int -> list(A)
.flatten: list(list(A)) -> list(A) | list(dyn), int -> list(dyn)
.reverse: list(A) -> list(A)
.distinct: list(A) -> list(A)
.sort: list(ORDERED) -> list(ORDERED)
.@sortByAssociatedKeys: list(A), list(ORDERED) -> list(A)
lists.range: int -> list(int)
sets.contains: list(A), list(A) -> bool
sets.equivalent: list(A), list(A) -> bool
sets.intersects: list(A), list(A) -> bool
cel.@mapInsert: map(A, B), A, B -> map(A, B) | map(A, B), map(A, B) -> map(A, B)
.includes: dyn, dyn -> bool
"""

_KUBERNETES = """
url: string -> url
isURL: string -> bool
.getQuery: url -> map(string, list(string))
quantity: string -> quantity
isQuantity: string -> bool
sign: quantity -> int
.isGreaterThan: quantity, quantity -> bool | semver, semver -> bool
.isLessThan: quantity, quantity -> bool | semver, semver -> bool
.compareTo: quantity, quantity -> int | semver, semver -> int
.asApproximateFloat: quantity -> double
.asInteger: quantity -> int
.isInteger: quantity -> bool
.add: quantity, quantity -> quantity | quantity, int -> quantity
.sub: quantity, quantity -> quantity | quantity, int -> quantity
semver: string -> semver | string, bool -> semver
isSemver: string -> bool | string, bool -> bool
.major: semver -> int
.minor: semver -> int
.patch: semver -> int
ip: string -> ip
.ip: cidr -> ip
.family: ip -> int
ip.isCanonical: string -> bool
isIP: string -> bool
cidr: string -> cidr
.containsIP: cidr, string -> bool | cidr, ip -> bool
.containsCIDR: cidr, string -> bool | cidr, cidr -> bool
.prefixLength: cidr -> int
.masked: cidr -> cidr
isCIDR: string -> bool
format.named: string -> optional(format)
.validate: format, string -> optional(list(string))
"""

_DATES = ("getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate", "getDayOfWeek")
_TIMES = ("getHours", "getMinutes", "getSeconds", "getMilliseconds")
_URL_PARTS = ("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath")
_ADDRESSES = ("isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast", "isGlobalUnicast")
FORMATS = (
    *("dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix"),
    *("dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date", "datetime"),
)
"""The named formats."""

_FAMILIES = [
    *(f".{name}: timestamp -> int | timestamp, string -> int" for name in _DATES),
    *(f".{name}: timestamp -> int | timestamp, string -> int | duration -> int" for name in _TIMES),
    *(f".{name}: url -> string" for name in _URL_PARTS),
    *(f".{name}: ip -> bool" for name in _ADDRESSES),
    *(f"format.{name}:  -> format" for name in FORMATS),
    *(f"{operator}: ORDERED, ORDERED -> bool" for operator in ("_<_", "_<=_", "_>_", "_>=_")),
    *(
        f"{operator}: int, double -> bool | int, uint -> bool | uint, double -> bool | uint, int -> bool"
        for operator in ("_<_", "_<=_", "_>_", "_>=_")
    ),
    *(f"{operator}: double, int -> bool | double, uint -> bool" for operator in ("_<_", "_<=_", "_>_", "_>=_")),
]


@dataclass(frozen=True, slots=True)
class Overload:
    """A signature of a function. A method's receiver is its first argument."""

    arguments: tuple[t.Type, ...]
    result: t.Type


def _declared() -> dict[str, tuple[Overload, ...]]:
    found: dict[str, list[Overload]] = {}
    texts = (_OPERATORS, _CONVERSIONS, _STRINGS, _LISTS, _KUBERNETES)
    for line in [*(line for text in texts for line in text.strip().splitlines()), *_FAMILIES]:
        name, _, overloads = line.partition(": ")
        for overload in overloads.split(" | "):
            group = next((each for each in _GROUPS if each in overload), "")
            for member in _GROUPS.get(group, ("",)):
                arguments, _, result = (overload.replace(group, member) if group else overload).partition("->")
                found.setdefault(name, []).append(Overload(t.read(arguments), t.read(result)[0]))
    return {name: tuple(overloads) for name, overloads in found.items()}


FUNCTIONS = _declared()
"""The overloads of all functions, by name: with the namespace for namespaced functions, with a leading dot for methods.
"""

DEVICE = t.Type("kubernetes.DRADevice")
DEVICE_FIELDS = {
    "driver": t.STRING,
    "allowMultipleAllocations": t.BOOL,
    "attributes": t.map_of(t.STRING, t.map_of(t.STRING, t.ANY)),
    "capacity": t.map_of(t.STRING, t.map_of(t.STRING, t.read("quantity")[0])),
}
"""The fields of `device`. The environment for stored expressions has all of them, whatever the feature gates."""

DEVICE_FIELDS_WITH_LISTS = {**DEVICE_FIELDS, "attributes": t.map_of(t.STRING, t.map_of(t.STRING, t.DYN))}
"""The same with the feature gate DRAListTypeAttributes."""

FOR_LISTS = ".includes"
"""The function that new expressions may not call without that gate."""

TYPES = {
    each.name: t.Type("type", (each,))
    for each in t.read(
        "bool, bytes, double, duration, int, list(A), map(A, B), null_type, string, timestamp, type, uint, "
        "optional(A), ip, cidr"
    )
}
"""The names of types."""
