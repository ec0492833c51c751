"""What the scheduler knows, written to its log for somebody who asks by a signal."""
