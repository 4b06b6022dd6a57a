"""`python -m populace` is `populace`."""

from populace.cli.start import run

if __name__ == "__main__":
    run()
