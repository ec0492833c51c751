"""The contract between plugins and the scheduler, as checks for any plugin.

    check_contract(MyPlugin)                 # raises BrokenContract with the smallest cluster that shows a breach

A promise is a function with a name (`promise.py`), in a file by subject: `deciding.py`, `sharing.py`, `queueing.py` and
others. To add one: a function there, its line in `contract.py`, and a plugin that breaks it in tests/testing.
"""

import bayplan.testing.strategies  # noqa: F401 - first, because it says what to install if Hypothesis is missing
from bayplan.testing.contract.contract import CHECKS, BrokenContract, check_contract

__all__ = ["CHECKS", "BrokenContract", "check_contract"]
