"""The entries of a recording: what reached a scheduler from outside, one after the other, and what it decided.

All else follows: between two entries, a scheduler depends on nothing but its state. `replay` makes the state again by
giving the entries to the same code, in the same order.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

RecordedStatus = tuple[int, tuple[str, ...], str]
"""The code, the reasons and the plugin of a Status."""


class RecordedEntry(msgspec.Struct, array_like=True, tag=True, gc=False):
    """An entry. `times`: the seconds that the scheduler's clocks said while the entry had its effect, in order."""

    times: list[float]


class Changed(RecordedEntry, gc=False):
    """A watch reported an object. `kind`: as `Kind.resource`. `raw`: its JSON; None for one that is gone."""

    kind: str
    key: str
    raw: bytes | None


class Popped(RecordedEntry, gc=False):
    """The queue was asked for a pod at a time (`at`, monotonic seconds). `uid`: "" if there was none.

    `again`: the pod's attempt gave way before, and begins anew.
    """

    at: float
    uid: str
    again: bool = False


class GaveWay(RecordedEntry, gc=False):
    """The attempt of the last popped pod took long, so that other pods had their turn. It decided nothing."""


class PodDecided(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """What was decided about a pod. `nominated`: None if its nomination stays. `victims`: uids, in order."""

    uid: str
    key: str
    node: str
    outcome: str
    message: str
    nominated: str | None = None
    victims: tuple[str, ...] = ()


class PlanMade(RecordedEntry, gc=False):
    """An attempt returned a plan. It is not taken in: a replay makes it again, and compares.

    `placed`: the uids of the pods to assume. `preemptions`: for each, the preemptor's uid, the node and the uids of the
    victims.
    """

    decisions: tuple[PodDecided, ...]
    placed: tuple[str, ...] = ()
    preemptions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()


class Answered(RecordedEntry, gc=False):
    """Extenders answered a question of the current attempt.

    One of the fields is set: `feasible` with `rejected`, `scores`, `candidates` (node, uids of victims, violations), or
    `error`.
    """

    feasible: tuple[str, ...] | None = None
    rejected: dict[str, RecordedStatus] = {}
    scores: dict[str, int] | None = None
    candidates: tuple[tuple[str, tuple[str, ...], int], ...] | None = None
    error: str | None = None


class Began(RecordedEntry, gc=False):
    """Work began that goes on beside attempts: a binding cycle, evictions, or what a plugin started.

    `task`: its number, in the order in which work was started.
    """

    task: int


class Permitted(RecordedEntry, gc=False):
    """A pod's wait in Permit ended."""

    task: int
    status: RecordedStatus


class Replied(RecordedEntry, gc=False):
    """A plugin's request or wait ended. `raw`: the JSON of the reply. `error`: its class, and its arguments as JSON.

    `kind`: that of the objects in the reply, as in `Changed`; "" if it has none.
    """

    task: int
    raw: bytes | None = None
    error: tuple[str, bytes] | None = None
    kind: str = ""


class PreBound(RecordedEntry, gc=False):
    """PreBind ended for a pod."""

    task: int
    status: RecordedStatus


class Bound(RecordedEntry, gc=False):
    """The binding of a pod ended: its outcome is known."""

    task: int
    status: RecordedStatus


class Evicted(RecordedEntry, gc=False):
    """Requests to delete victims ended. `success`: whether all of them are gone or terminating.

    `decision`: the number of the decision that evicts them. `preemptor` and `victims`: uids. Version 1 of the format
    has none of the three.
    """

    task: int
    success: bool
    decision: int = 0
    preemptor: str = ""
    victims: tuple[str, ...] = ()


class Activated(RecordedEntry, gc=False):
    """A plugin activated pods, by work that no entry stands for."""

    uids: tuple[str, ...]


class RequestsOpened(RecordedEntry, gc=False):
    """Provisioning requests are answered from now on: everything was listed."""


class RequestDue(RecordedEntry, gc=False):
    """A deadline of a provisioning request came. `key`: `namespace/name`."""

    key: str


class RecordedObject(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """An object of a checkpoint. `raw`: as the API server reported it. `assumed`: as it is being written, or None."""

    kind: str
    key: str
    raw: bytes
    assumed: bytes | None = None


class RecordedPlace(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A pod on a row of the node table. `assumed`: whether its binding is not confirmed yet."""

    key: str
    uid: str
    node: str
    assumed: bool


class RecordedQueued(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """A pod in the queue: the fields of a QueuedPod. `place`: the value of a Place.

    The time in the queue, the failures and the backoff of a pod that waits in a group are those of the group.
    """

    key: str
    place: str
    queued_at: float
    attempts: int
    initial_attempt_at: float | None
    unschedulable_count: int
    consecutive_errors: int
    backoff_expiration: float | None
    unschedulable_plugins: tuple[str, ...]
    pending_plugins: tuple[str, ...]
    gating_plugin: str
    was_flushed: bool
    undone: bool
    message: str


class RecordedMemory(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """What a plugin of a profile remembered. `raw`: JSON."""

    scheduler: str
    plugin: str
    raw: bytes


class Checkpoint(RecordedEntry, gc=False):
    """The state of the scheduler: a segment that begins with it can be read without the ones before.

    `decisions` and `tasks`: how many there were so far. `rows`: the names of the rows of the node table; "" for free
    ones. `nominated`: the key and the uid of a pod, and the node. `binding`: the numbers of the
    tasks that have not ended, with the uids of their pods. `random`: the state of the random numbers, and `rotation`
    that of the search for enough nodes. `requests`: the answered provisioning requests, as their desk encodes them.
    `memories`: what plugins remembered.
    """

    at: float
    decisions: int
    tasks: int
    objects: tuple[RecordedObject, ...]
    rows: tuple[str, ...]
    placed: tuple[RecordedPlace, ...]
    queued: tuple[RecordedQueued, ...]
    nominated: tuple[tuple[str, str, str], ...]
    binding: tuple[tuple[int, str], ...]
    random: tuple[int, tuple[int, ...], float | None]
    rotation: int
    requests: bytes = b""
    memories: tuple[RecordedMemory, ...] = ()


class Compared(RecordedEntry, gc=False):
    """What plugins found by comparing names, in order, while the entry before had its effect. For redacted recordings.

    It is not taken in: who makes the same comparisons again gets these outcomes.
    """

    outcomes: tuple[bool, ...]


class RecordingEnded(RecordedEntry, gc=False):
    """The scheduler stopped, as asked."""


AnyEntry = (
    Changed
    | Popped
    | GaveWay
    | PlanMade
    | Answered
    | Began
    | Permitted
    | Replied
    | PreBound
    | Bound
    | Evicted
    | Activated
    | RequestsOpened
    | RequestDue
    | Checkpoint
    | Compared
    | RecordingEnded
)


class RecordedPlugin(msgspec.Struct, frozen=True):
    """A plugin of the user's. `reference`: as in `--plugin`. `sha256`: of its file; "" if it has none."""

    reference: str
    names: tuple[str, ...] = ()
    sha256: str = ""


class Setting(msgspec.Struct, frozen=True):
    """How a recorded scheduler was set up. `configuration`: a KubeSchedulerConfiguration, in YAML.

    `gates`: the feature gates that differ from those of `kubernetes`, the version that it decides as. `cluster`: the
    server's address. Times are seconds. `answers`: the classes of the provisioning requests that it answers.
    """

    configuration: str = ""
    kubernetes: str = ""
    gates: dict[str, bool] = {}
    plugins: tuple[RecordedPlugin, ...] = ()
    seed: int = 0
    initial_backoff: float = 1.0
    max_backoff: float = 10.0
    unschedulable_timeout: float = 300.0
    cluster: str = ""
    answers: tuple[str, ...] = ()


class RecordingRedaction(Protocol):
    """Replaces all that users have named in what is written. It is used in the writer's thread.

    `left_out`: what can't be replaced, and is left out, one line each. It may grow.
    """

    left_out: list[str]

    def setting(self, setting: Setting) -> Setting:
        """The setting, redacted."""
        ...

    def entries(self, entries: list[RecordedEntry]) -> list[RecordedEntry]:
        """Entries, redacted. Some may be left out."""
        ...


def encode_entries(entries: list[RecordedEntry]) -> bytes:
    """The entries as MessagePack."""
    return _encoder.encode(entries)


def decode_entries(data: bytes) -> list[AnyEntry]:
    """Undo `encode_entries`. Raises msgspec.MsgspecError."""
    return _decoder.decode(data)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[AnyEntry])
