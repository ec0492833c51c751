"""The commands for releases."""

import click
from tools.releases.binary import binary
from tools.releases.checking import check
from tools.releases.distributions import dist_twice
from tools.releases.making import make

click.Group("releases", commands=[make, check, binary, dist_twice])()
