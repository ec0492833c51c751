"""The contract between plugins and the scheduler, as checks for any plugin."""

import bayplan.testing.strategies  # noqa: F401 - first, because it says what to install if Hypothesis is missing
from bayplan.testing.contract.contract import CHECKS, BrokenContract, check_contract

__all__ = ["CHECKS", "BrokenContract", "check_contract"]
