"""Migrations, one file per revision. Files of released versions are never changed."""
