"""Results that pods share: a runner around the framework's, with a key of each pod and a memo of rows.

It saves time only. Without it, every attempt ends with the same decision: `scheduling` calls a `PodRun` and doesn't
know which one, and plugins declare what they read, not what is shared.
"""

from bayplan.core.sharing.keys import PodKey
from bayplan.core.sharing.room import SharedRun, Sharing

__all__ = ["PodKey", "SharedRun", "Sharing"]
