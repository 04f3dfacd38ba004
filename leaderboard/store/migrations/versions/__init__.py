"""Migrations, one file per revision. A released file never changes."""
