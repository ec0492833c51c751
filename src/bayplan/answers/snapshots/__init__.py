"""Snapshots: what a scheduler knows of a cluster at one moment, as a value that never changes.

    snapshot = Snapshot.from_cluster()                  # or from_files, load, of: it reads a cluster, files or objects
    snapshot.of_kind(POD)["default/web-0"]              # the JSON of an object
    snapshot.but(remove=[(NODE, "node-3")])             # another snapshot, which shares all else
    snapshot.save("cluster.bayplan", redact=True)       # a file without the names of its owner

Start at `snapshot.py`. Every source (`cluster.py`, `files.py`, `archive.py`, `dev_cluster.py`) returns a `Reading`
(`reading.py`) of documents (`documents.py`). `usable.py` leaves out objects that can't be read. `rights.py` has the
kinds that a snapshot has, and what it costs if one can't be read. `served.py` follows a cluster by list and watch.
`feeds.py` asks for what plugins read besides. `redaction/` replaces names.

Other packages use `archive`, `cluster`, `documents`, `exports`, `feeds`, `held_places`, `lacking`, `objects`,
`older_versions`, `reading`, `redaction`, `rights`, `served`, `snapshot`, `usable`.
"""

from typing import TYPE_CHECKING

from bayplan.foundations.lazy import lazily

if TYPE_CHECKING:
    from bayplan.answers.snapshots.reading import Gap, SnapshotError
    from bayplan.answers.snapshots.snapshot import Snapshot

__all__ = ["Gap", "Snapshot", "SnapshotError"]

__getattr__, __dir__ = lazily(__name__)
