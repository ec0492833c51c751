"""Judging: whether two decisions are equal, tied, in another order, or one is better, and by which plugin."""
