"""`python -m bayplan` runs `bayplan`."""

from bayplan.faces.cli import main

if __name__ == "__main__":
    main(prog_name="bayplan")
