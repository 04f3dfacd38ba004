"""The parse columns of MNLI and SNLI."""

__all__ = ["flat_parses"]


def flat_parses(text: str) -> tuple[str, str]:
    """A flat binary parse and a flat parse: nobody reads these columns, but they have a place."""
    words = text.rstrip(".").split()
    return f"( ( {' '.join(words)} ) . )", f"(ROOT (S {' '.join(words)} (. .)))"
