"""Options of endpoints by the names of their fields, whatever their group."""

from dataclasses import fields, replace

from bayplan.running.service.serving.options import ServingOptions

_GROUPS = ("secure", "authentication", "authorization")


def serving_options(**given):
    """ServingOptions with these fields of its groups: `serving_options(port=0, skip_lookup=True)`."""
    options = ServingOptions()
    for name in _GROUPS:
        group = getattr(options, name)
        own = {field.name: given.pop(field.name) for field in fields(group) if field.name in given}
        options = replace(options, **{name: replace(group, **own)})
    return replace(options, **given)
