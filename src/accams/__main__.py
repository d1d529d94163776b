"""``python -m accams``: the command line."""

from accams.cli.main import run

if __name__ == "__main__":  # not in processes that it starts
    run()
