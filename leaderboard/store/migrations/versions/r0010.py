"""The schema of 0.1.0; stores of before, with the revisions 0001 to 0004, are not upgraded."""

revision = "0010"
down_revision = None


def upgrade() -> None:
    """Nothing: a new store gets the newest schema at once, without going through its history."""
