"""The base of the controllers whose objects own pods or ReplicaSets: which ones they own, and when to sync them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from bayplan.core.api.kinds import POD, Kind
from bayplan.core.api.labels import LabelSelector
from bayplan.core.api.selectors import selector_or_nothing
from bayplan.core.api.served import Object, Workload
from bayplan.core.expansion import pods
from bayplan.core.expansion.owner_references import controller_of, controller_uids, orphans_of
from bayplan_devcluster.controllers.controller import Controller, ControllerContext
from bayplan_devcluster.controllers.informers import key_of
from bayplan_devcluster.controllers.ownership import claim


class OwnerController(Controller):
    """Reconciles the objects of one kind with the dependents that their selectors match."""

    kind: ClassVar[Kind]
    dependent_kind: ClassVar[Kind] = POD

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._owners = self.watch(self.kind, self.enqueue)
        self._dependents = self.watch(self.dependent_kind)
        self._by_controller = self._dependents.index(controller_uids)
        self._by_namespace = self._owners.index(lambda one: (one.metadata.namespace,))
        self._dependents.listen(self._dependent_changed)

    def selector(self, owner: Any) -> LabelSelector:
        """The selector of an owner's dependents."""
        return selector_or_nothing(owner.spec.selector)

    def may_own(self, _owner: Any, _dependent: Any) -> bool:
        """Whether an owner may adopt a dependent that its selector matches."""
        return True

    def owned(self, owner: Object) -> list[Any]:
        """The dependents of an owner, as the informer shows them now."""
        return list(self._by_controller.get(owner.metadata.uid))

    async def claim(self, owner: Object) -> list[Any]:
        """The dependents of an owner, after it has adopted orphans and released those that no longer match."""
        orphans = self._by_controller.get(orphans_of(owner.metadata.namespace))
        claimed = await claim(
            self.client,
            self.kind,
            owner,
            self.dependent_kind,
            self.selector(owner),
            self._by_controller.get(owner.metadata.uid),
            [one for one in orphans if self.may_own(owner, one)],
        )
        await self._dependents.observe(claimed)
        return claimed

    def await_availability(self, owner: Workload, now: datetime) -> None:
        """Sync an owner again when the next of its pods becomes available."""
        wait = pods.seconds_until_available(self.owned(owner), owner.spec.minReadySeconds or 0, now)
        if wait is not None:
            self.queue.add_after(key_of(owner), wait)

    def _dependent_changed(self, old: Object | None, new: Object | None) -> None:
        for one in filter(None, (old, new)):
            reference = controller_of(one)
            if reference is not None and reference.kind == self.kind.kind:
                owned = self._by_controller.count(reference.uid)
                self.enqueue_for(f"{one.metadata.namespace}/{reference.name}", owned)
        if new is not None and controller_of(new) is None and new.metadata.deletionTimestamp is None:
            for owner in self._by_namespace.get(new.metadata.namespace):
                if self.may_own(owner, new) and self.selector(owner).matches(new.metadata.labels or {}):
                    self.queue.add(key_of(owner))
