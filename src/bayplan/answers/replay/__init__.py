"""Replays: recorded decisions are made again, from what they rested on."""
