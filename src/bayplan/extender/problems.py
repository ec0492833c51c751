"""Why an extender cannot answer, other than that a plugin has failed."""


class Unanswerable(ValueError):
    """A question that makes no sense, or that what is known does not answer. The message says what would be right."""
