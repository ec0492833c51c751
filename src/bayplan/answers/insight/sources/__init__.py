"""Where snapshots come from: clusters, files and archives."""
