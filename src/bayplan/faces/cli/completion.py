"""`bayplan completion`: scripts that complete commands and options in a shell."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, get_completion_class

_APPEND = "COMPREPLY+=($value)"


class BashWithFolders(BashComplete):
    """The script of click for bash, without the space after a directory."""

    assert _APPEND in BashComplete.source_template
    source_template = BashComplete.source_template.replace(
        _APPEND, f"{_APPEND}\n            [[ $value == */ ]] && compopt -o nospace"
    )


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes `bayplan` commands in a shell.

    bash:  bayplan completion bash >~/.local/share/bash-completion/completions/bayplan

    zsh:   bayplan completion zsh >"${fpath[1]}/_bayplan"

    fish:  bayplan completion fish >~/.config/fish/completions/bayplan.fish
    """
    maker = BashWithFolders if shell == "bash" else get_completion_class(shell)
    assert maker is not None  # click knows the three shells above
    click.echo(maker(ctx.find_root().command, {}, "bayplan", "_BAYPLAN_COMPLETE").source())
