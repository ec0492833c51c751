"""New node pools of a candidate, as in `name=big,cpu=16,memory=64Gi,price=0.77`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.backtest.node_pools import NodePool, PoolKey
from bayplan.core.api.quantity import InvalidQuantity, parse
from bayplan.core.api.well_known_labels import ZONE

_POOL = "node-pool"
_TYPE = "node.kubernetes.io/instance-type"
_SYNTAX = "expected name=NAME,cpu=N,memory=N[,type=T][,pods=N][,zones=A+B][,price=P][,max=N][,replaces=POOL]"
_KNOWN = ("name", "cpu", "memory", "type", "pods", "zones", "price", "max", "replaces")


@dataclass(frozen=True, slots=True)
class NewPool:
    """A pool that doesn't exist yet. `replaces`: the pool, or the type, that gets no new nodes any more."""

    name: str
    instance_type: str
    allocatable: dict[str, str]
    zones: tuple[str, ...]
    price: float | None
    most: int
    replaces: str

    def pools(self, like: Sequence[NodePool]) -> list[NodePool]:
        """Return a group for each zone, by default those of the pool that it replaces, or of all pools.

        New nodes have the labels, taints and pods of DaemonSets of the first of these pools, but for those of the pool.
        """
        templates = [pool for pool in like if not self.replaces or pool.key.is_called(self.replaces)]
        if self.replaces and not templates:
            names = (
                ", ".join(sorted({pool.key.pool or pool.key.instance_type or pool.key.name for pool in like})) or "none"
            )
            raise BacktestError(
                f"--node-pool {self.name}: there is no pool {self.replaces!r} to replace; there is {names}"
            )
        zones = self.zones or tuple(dict.fromkeys(pool.key.zone for pool in templates)) or ("",)
        made = []
        for zone in zones:
            template = next((pool for pool in templates if pool.key.zone == zone), templates[0] if templates else None)
            spec = {} if template is None else {"taints": (template.like.get("spec") or {}).get("taints") or []}
            labels = {"kubernetes.io/os": "linux", _POOL: self.name, _TYPE: self.instance_type}
            if zone:
                labels[ZONE] = zone
            document = {
                "metadata": {"name": self.name, "labels": labels},
                "spec": spec if self.replaces else {},
                "status": {"allocatable": self.allocatable, "capacity": self.allocatable},
            }
            key = PoolKey(self.name, self.instance_type, zone)
            made.append(NodePool(key, document, [] if template is None else template.daemons))
        return made


def parse_pool(text: str) -> NewPool:
    """Read a pool. Raises BacktestError."""
    fields: dict[str, str] = {}
    for part in text.split(","):
        name, equals, value = part.partition("=")
        if not equals or name.strip() not in _KNOWN or not value.strip():
            raise BacktestError(f"--node-pool {text}: {part!r}: {_SYNTAX}")
        fields[name.strip()] = value.strip()
    for name in ("name", "cpu", "memory"):
        if name not in fields:
            raise BacktestError(f"--node-pool {text}: {name} is missing: {_SYNTAX}")
    allocatable = {"cpu": fields["cpu"], "memory": fields["memory"], "pods": fields.get("pods", "110")}
    for name, amount in allocatable.items():
        try:
            parse(amount)
        except InvalidQuantity:
            raise BacktestError(f"--node-pool {text}: {name}={amount} is no quantity, as in 4 or 16Gi") from None
    return NewPool(
        name=fields["name"],
        instance_type=fields.get("type", fields["name"]),
        allocatable=allocatable,
        zones=tuple(zone for zone in fields.get("zones", "").split("+") if zone),
        price=_number(text, "price", fields.get("price")),
        most=int(_number(text, "max", fields.get("max")) or 1000),
        replaces=fields.get("replaces", ""),
    )


def _number(text: str, name: str, value: str | None) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number < 1e6:
        raise BacktestError(f"--node-pool {text}: {name}={value} is no number")
    return number
