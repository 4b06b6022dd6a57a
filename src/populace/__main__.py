"""`python -m populace` is `populace`."""

from populace.cli.main import run

if __name__ == "__main__":
    run()
