"""`bayplan completion`: what makes a shell complete bayplan's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import BashComplete, get_completion_class

_TAKEN = "COMPREPLY+=($value)"


class BashThatGoesOnAfterFolders(BashComplete):
    """click's script for bash, which would end the word after a folder of a path, too."""

    assert _TAKEN in BashComplete.source_template
    source_template = BashComplete.source_template.replace(
        _TAKEN, f"{_TAKEN}\n            [[ $value == */ ]] && compopt -o nospace"
    )


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes `bayplan` in a shell.

    bash:  bayplan completion bash >~/.local/share/bash-completion/completions/bayplan

    zsh:   bayplan completion zsh >"${fpath[1]}/_bayplan"

    fish:  bayplan completion fish >~/.config/fish/completions/bayplan.fish
    """
    maker = BashThatGoesOnAfterFolders if shell == "bash" else get_completion_class(shell)
    assert maker is not None  # click knows the three shells above
    click.echo(maker(ctx.find_root().command, {}, "bayplan", "_BAYPLAN_COMPLETE").source())
