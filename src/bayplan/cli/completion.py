"""`bayplan completion`: what makes a shell complete bayplan's commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes `bayplan` in a shell.

    bash:  bayplan completion bash >~/.local/share/bash-completion/completions/bayplan

    zsh:   bayplan completion zsh >"${fpath[1]}/_bayplan"

    fish:  bayplan completion fish >~/.config/fish/completions/bayplan.fish
    """
    maker = get_completion_class(shell)
    assert maker is not None  # click knows the three shells above
    click.echo(maker(ctx.find_root().command, {}, "bayplan", "_BAYPLAN_COMPLETE").source())
