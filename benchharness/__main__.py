"""Entry point of `python -m benchharness`, which runs the command `bench`."""

from benchharness.cli.app import main

if __name__ == "__main__":
    main()
