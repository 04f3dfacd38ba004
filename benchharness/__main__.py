"""`python -m benchharness` is `bench`."""

from benchharness.cli.app import main

main()
