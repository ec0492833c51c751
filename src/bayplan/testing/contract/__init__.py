"""The contract between plugins and the scheduler, as checks that any plugin can be held to."""

from bayplan.testing.contract.contract import CHECKS, check_contract
from bayplan.testing.contract.faults import BrokenContract

__all__ = ["CHECKS", "BrokenContract", "check_contract"]
