"""One decision: filter, score, select, and what follows when nothing fits. Pure: no I/O, no clock, no global random."""
