"""What everything stands on: time, files, memory and the server behind all ports. None of it knows the scheduler.

It imports nothing of Bayplan. Start with what you need: `clock.py` (real and virtual time) and `turns.py` (sharing
the event loop); `bounded_files.py` (the limits of all files that are read) and `file_replacement.py` (how files are
written); `latest.py` and `shrinking.py` (containers that give memory back); `http_server/` (limits on connections and
bodies).

Other packages use `bounded_files`, `clock`, `collector`, `failures`, `file_lock`, `file_replacement`, `heap`,
`http_server`, `latest`, `lazy`, `log_fields`, `manifest_files`, `shrinking`, `tls`, `turns`.
"""
