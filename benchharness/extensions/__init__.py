"""The extensions that come with benchharness: a folder each, found by `benchharness.discovery`."""
