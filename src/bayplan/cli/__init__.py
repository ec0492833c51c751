"""The `bayplan` command: argument parsing and printing only; the work is done by the packages above."""
