"""An index of the pods on nodes by namespace and labels: which rows have the pods that a selector matches.

Pods with equal namespaces and labels share a label set, so that a selector is evaluated for label sets instead of pods.
For each namespace, label key and label, the index has the label sets with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.core.api.labels import Requirement
from bayplan.core.cluster.columns import Bool, Int32, Rows, grown
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.pod_selectors import LabelsKey, PodQuery, keep_labels_key, labels_key
from bayplan.core.cluster.slots import Slots
from bayplan.foundations.shrinking import shrink

_MIN_PODS = 64
"""The smallest number of pods that the arrays have room for."""
_MAX_MASKS = 64
_NO_ROWS: Rows = np.zeros(0, dtype=np.intp)
_NO_ROWS.setflags(write=False)


class LabelSet:
    """A namespace with labels that pods have.

    `number`: the index of the set, which is reused after its last pod. `pods`: the number of its pods. `groups`: the
    selector groups that it belongs to, valid at `version` of the groups.
    """

    __slots__ = ("groups", "key", "labels", "namespace", "number", "pods", "version")

    def __init__(self, key: LabelsKey, labels: Mapping[str, str], number: int) -> None:
        self.key = key
        self.namespace = key[0]
        self.labels = labels
        self.number = number
        self.pods = 0
        self.groups: tuple[Any, ...] = ()
        self.version = -1


class PodIndex:
    """The pods on nodes, with postings: the label sets of each namespace, label key and label."""

    def __init__(self) -> None:
        self._by_key: dict[LabelsKey, LabelSet] = {}
        self._slots = Slots()
        self._sets: list[LabelSet | None] = []
        """By number."""
        self._in_namespace: dict[str, set[int]] = {}
        self._with_label: dict[str, set[int]] = {}
        """By label key."""
        self._with_value: dict[str, dict[str, set[int]]] = {}
        """By label key and value."""
        self._masks: dict[frozenset[str] | None, Bool] = {}
        """By namespaces: their label sets. Cleared when a label set is added or removed."""
        # The pods, in no particular order: a pod that is removed is replaced by the last one.
        self._position_of: dict[str, int] = {}
        self._uids: list[str] = []
        self._set_of: Int32 = np.zeros(_MIN_PODS, dtype=np.int32)
        self._row_of: Int32 = np.zeros(_MIN_PODS, dtype=np.int32)
        self._terminating: Bool = np.zeros(_MIN_PODS, dtype=np.bool_)

    def __len__(self) -> int:
        """Return the number of pods."""
        return len(self._uids)

    @property
    def label_sets(self) -> Iterator[LabelSet]:
        """The label sets that have pods."""
        return iter(self._by_key.values())

    def add(self, row: int, pod: PodInfo) -> LabelSet:
        """Add a pod to a row, and return its label set."""
        key = labels_key(pod)
        found = self._by_key.get(key)
        if found is None:
            found = self._add_set(key, pod.labels)
        elif found.key is not key:
            keep_labels_key(pod, found.key)
        found.pods += 1
        position = self._position_of[pod.uid] = len(self._uids)
        self._uids.append(pod.uid)
        if position == len(self._set_of):
            self._resize(2 * position)
        self._set_of[position] = found.number
        self._row_of[position] = row
        self._terminating[position] = pod.terminating
        return found

    def remove(self, uid: str) -> LabelSet:
        """Remove a pod, and return its label set, which may have no pods any more. Raises KeyError."""
        position, last = self._position_of.pop(uid), len(self._uids) - 1
        found = self._sets[self._set_of.item(position)]
        assert found is not None
        moved = self._uids.pop()
        if position != last:
            self._uids[position] = moved
            self._position_of[moved] = position
            for array in (self._set_of, self._row_of, self._terminating):
                array[position] = array[last]
        shrink(self._position_of)
        if _MIN_PODS <= 4 * last <= len(self._set_of):
            self._resize(2 * last)
        found.pods -= 1
        if found.pods == 0:
            self._remove_set(found)
        return found

    def rows(self, query: PodQuery | None) -> tuple[Rows, Rows]:
        """Return the rows of the matching pods, and of those that are terminating: intp, one per pod. None: no pods."""
        mask = self._matching(query) if query is not None else None
        if mask is None:
            return _NO_ROWS, _NO_ROWS
        positions = np.flatnonzero(mask[self._set_of[: len(self._uids)]])
        rows = self._row_of[positions].astype(np.intp)
        return rows, rows[self._terminating[positions]]

    def _matching(self, query: PodQuery) -> Bool | None:
        """Return which label sets match: bool, by number; None if none does."""
        required: list[set[int]] = []
        excluded: list[set[int]] = []
        for each in query.requirements:
            found, negative = self._postings(each)
            if negative:
                excluded += found
            else:
                some = [numbers for numbers in found if numbers]
                if not some:
                    return None
                required.append(some[0] if len(some) == 1 else set().union(*some))
        if not required:
            mask = self._mask_of_namespaces(query.namespaces).copy()
        else:
            if query.namespaces is not None:
                required.append(self._numbers_in(query.namespaces))
            numbers = set.intersection(*sorted(required, key=len))
            if not numbers:
                return None
            mask = np.zeros(self._slots.size, dtype=np.bool_)
            mask[_array(numbers)] = True
        for numbers in excluded:
            mask[_array(numbers)] = False
        return mask

    def _postings(self, requirement: Requirement) -> tuple[list[set[int]], bool]:
        """Return sets of numbers, and whether they are the ones that do not meet the requirement, or that do."""
        key, operator = requirement.key, requirement.operator
        if operator in {"exists", "!"}:
            return [self._with_label.get(key, set())], operator == "!"
        by_value = self._with_value.get(key, {})
        if operator in {"in", "=", "==", "notin", "!="}:
            found = [by_value[value] for value in requirement.values if value in by_value]
            return found, operator in {"notin", "!="}
        return [numbers for value, numbers in by_value.items() if requirement.matches({key: value})], False

    def _numbers_in(self, namespaces: frozenset[str]) -> set[int]:
        found = [self._in_namespace.get(namespace, set()) for namespace in namespaces]
        return found[0] if len(found) == 1 else set().union(*found)

    def _mask_of_namespaces(self, namespaces: frozenset[str] | None) -> Bool:
        mask = self._masks.get(namespaces)
        if mask is None:
            if len(self._masks) >= _MAX_MASKS:
                self._masks.clear()
            mask = self._masks[namespaces] = np.zeros(self._slots.size, dtype=np.bool_)
            mask[slice(None) if namespaces is None else _array(self._numbers_in(namespaces))] = True
        return mask

    def _add_set(self, key: LabelsKey, labels: Mapping[str, str]) -> LabelSet:
        number = self._slots.claim()
        found = self._by_key[key] = LabelSet(key, labels, number)
        if number == len(self._sets):
            self._sets.append(found)
        else:
            self._sets[number] = found
        self._in_namespace.setdefault(found.namespace, set()).add(number)
        for label, value in labels.items():
            self._with_label.setdefault(label, set()).add(number)
            self._with_value.setdefault(label, {}).setdefault(value, set()).add(number)
        self._masks.clear()
        return found

    def _remove_set(self, old: LabelSet) -> None:
        number = old.number
        del self._by_key[old.key]
        shrink(self._by_key)
        self._sets[number] = None
        self._slots.release(number)
        del self._sets[self._slots.trim() :]
        _discard(self._in_namespace, old.namespace, number)
        for label, value in old.labels.items():
            _discard(self._with_label, label, number)
            by_value = self._with_value[label]
            _discard(by_value, value, number)
            if not by_value:
                del self._with_value[label]
                shrink(self._with_value)
        self._masks.clear()

    def _resize(self, length: int) -> None:
        self._set_of, self._row_of, self._terminating = (
            _resized(array, length) for array in (self._set_of, self._row_of, self._terminating)
        )


def _array(numbers: Collection[int]) -> Rows:
    return np.fromiter(numbers, dtype=np.intp, count=len(numbers))


def _discard(postings: dict[str, set[int]], key: str, number: int) -> None:
    numbers = postings[key]
    numbers.remove(number)
    if numbers:
        shrink(numbers)
    else:
        del postings[key]
        shrink(postings)


def _resized(array: NDArray[Any], length: int) -> NDArray[Any]:
    return grown(array, length) if length > len(array) else array[:length].copy()
