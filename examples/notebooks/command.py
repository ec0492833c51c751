"""What the notebooks share: a command of Bayplan as a call."""

import subprocess
import sys


def bayplan(*arguments):
    """Run a command of Bayplan, and return what it prints."""
    command = [sys.executable, "-m", "bayplan", *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
