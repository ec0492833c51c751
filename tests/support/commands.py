"""Commands of `bayplan` in this process."""

from typing import Any

from click.testing import CliRunner, Result

from bayplan.faces.cli import main


def bayplan(*arguments: object, status: int | None = 0, **options: Any) -> Result:
    """Run a command. Raises AssertionError unless it ends with `status`, if one is given, and without a traceback."""
    result = CliRunner().invoke(main, [str(each) for each in arguments], **options)
    assert status in {result.exit_code, None}, result.output
    assert "Traceback" not in result.output
    return result
