"""Size limits of the resource.k8s.io API. Mirrors the constants of k8s.io/api/resource/v1/types.go."""

from __future__ import annotations

MAX_REQUESTS = MAX_CONSTRAINTS = MAX_CONFIGS = MAX_SELECTORS = 32
MAX_ALTERNATIVES = 8
"""Alternatives of one request (`firstAvailable`)."""
MAX_RESERVATIONS = 256
"""Consumers of one claim (`reservedFor`)."""
MAX_RESULTS = 32
"""Devices allocated to one claim."""
MAX_DEVICES = 128
"""Devices of one slice."""
MAX_SPECIAL_DEVICES = 64
"""Devices of one slice in which any device has taints or consumes counters."""
MAX_ATTRIBUTES = 32
"""Attributes and capacities of one device."""
MAX_ATTRIBUTE_VALUES = 48
"""Values of all attributes of one device."""
MAX_VALUE_LENGTH = 64
"""Characters of an attribute that is a text or a version."""
MAX_EXPRESSION_LENGTH = 10 * 1024
"""Characters of one CEL expression."""
MAX_DERIVED = 32
"""Attributes that one request derives."""
MAX_GROUPS = 2
"""Compatibility groups of a device for one counter set."""
MAX_VALID_VALUES = 10
"""Of a request policy."""
