"""The SQLite file or PostgreSQL schema that holds results, whole, one transaction each."""
