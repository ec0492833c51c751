"""Where histories come from, other than from recording: one file each."""
