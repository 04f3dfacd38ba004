"""Alembic migrations of the schema: one file per revision in `versions`, such as r0010.py."""
