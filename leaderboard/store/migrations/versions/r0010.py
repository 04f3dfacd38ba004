"""Schema of 0.1.0. Earlier stores, with the revisions 0001 to 0004, are not upgraded."""

revision = "0010"
down_revision = None


def upgrade() -> None:
    """Do nothing: a new store gets the newest schema directly, without migrations."""
