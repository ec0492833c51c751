"""The commands for images."""

import click
from tools.images.building import build
from tools.images.trial import try_images

click.Group("images", commands=[build, try_images])()
