"""Schema of version 0.1.0. Older stores, with revisions 0001 to 0004, cannot be upgraded."""

revision = "0010"
down_revision = None


def upgrade() -> None:
    """Do nothing, because a new store is created with the newest schema, without migrations."""
