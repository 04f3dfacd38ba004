"""Extensions that come with benchharness: one folder each, found by `benchharness.discovery`."""
