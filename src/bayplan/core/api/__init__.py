"""Kubernetes objects as typed values, and how to interpret them: quantities, selectors, tolerations, resource requests
and the table of kinds. This package knows nothing about scheduling and imports no other package of Bayplan.
"""

from bayplan.foundations.lazy import import_lazily

import_lazily("lightkube")  # it imports its clients with an HTTP library, but only its models are needed
