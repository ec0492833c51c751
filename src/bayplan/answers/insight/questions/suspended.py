"""Whether the pods of a suspended Job would be placed if it were started."""

from __future__ import annotations

from dataclasses import replace

from bayplan.answers.insight.answers import Stopped, plural
from bayplan.answers.insight.limits import LimitError
from bayplan.answers.insight.manifests import Manifests
from bayplan.answers.insight.questions.fit import fit
from bayplan.answers.insight.questions.workload import Missing
from bayplan.answers.simulation.results import Fate
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import JOB


def if_not_suspended(missing: Missing, snapshot: Snapshot, world: World, key: str, expander: Manifests) -> Missing:
    """Return the missing pods of a Job with one more reason, if it is suspended: what would become of them."""
    document = snapshot.document(JOB, key) or {}
    spec = document.get("spec") or {}
    if not spec.get("suspend"):
        return missing
    try:
        found = fit(world, expander.missing(JOB, {**document, "spec": {**spec, "suspend": False}}))
    except (Stopped, LimitError):
        return missing
    pending = [pod for pod in found.pods if pod.outcome == Fate.PENDING.value]
    if not found.pods:
        return missing
    if not pending:
        text = f"if it were started, all of its {plural(len(found.pods), 'pod')} would be placed now"
    else:
        placed, of = len(found.pods) - len(pending), plural(len(found.pods), "pod")
        text = f"if it were started, {placed} of its {of} would be placed now: {pending[0].message}"
    return replace(missing, reasons=(*missing.reasons, text))
