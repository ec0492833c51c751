"""Releases: made of a commit with the tag of its version, and checked as somebody checks them who has only the folder.

`make release` writes a folder, and `make release-check DIR=folder` reads it. Everything has the same bytes each time it
is made of one commit with the same programs. Where things will be published, and with which key they are signed, are
parameters: nothing here knows a host.

`folder.py` says which files a release has, and both sides ask it.
"""
