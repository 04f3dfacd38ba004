"""PostgreSQL server for tests, from the machine's packages, on a private socket."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest
from sqlalchemy import text

from benchharness.leaderboard.store import SCHEMA
from benchharness.leaderboard.store.database import open_engine, writing

PROGRAMS = Path("/usr/lib/postgresql")
"""Folder in which Debian installs each version's programs."""


@contextmanager
def server(password: str = "") -> Iterator[str]:
    """Yield the URL of an empty database; skip the test if PostgreSQL is not installed.

    With a password, which is in the URL, the server listens on a local port.
    """
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    programs = _programs()
    # Use a folder that any user may enter instead of pytest's: as root, the server runs as another
    # user.
    folder = Path(tempfile.mkdtemp(prefix="bench-pg-", dir="/tmp"))
    try:
        if os.geteuid() == 0:
            owner = pwd.getpwnam(_user())
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        (folder / "password").write_text(password or "-")
        auth = ("--auth=scram-sha-256" if password else "--auth=trust", "--username=bench")
        made = ("--pgdata", folder / "data", "--pwfile", folder / "password")
        _run(programs / "initdb", *made, *auth)
        (folder / "password").unlink()
        port = _free_port() if password else 5432
        heard = f"127.0.0.1 -p {port}" if password else "''"
        options = f"-c max_connections=200 -k {folder} -c listen_addresses={heard}"
        start = ("--pgdata", folder / "data", "--log", folder / "log", "--wait")
        _run(programs / "pg_ctl", *start, "--options", options, "start")
        try:
            quoted = quote(password, safe="")
            yield (
                f"postgresql+psycopg://bench:{quoted}@127.0.0.1:{port}/postgres"
                if password
                else f"postgresql+psycopg://bench@/postgres?host={folder}"
            )
        finally:
            _run(programs / "pg_ctl", *start, "--mode", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def empty(url: str) -> None:
    """Drop the tables of a store."""
    with writing(open_engine(url)) as session:
        for table in (*SCHEMA.tables, "alembic_version"):
            session.execute(text(f"DROP TABLE IF EXISTS {table} CASCADE"))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _programs() -> Path:
    versions = sorted(PROGRAMS.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    if not versions:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    if os.geteuid() == 0 and not _user():
        pytest.skip("root may run no PostgreSQL, and there is no user postgres or nobody")
    return versions[-1].parent


def _user() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in names), "")


def _run(program: Path, *words: object) -> None:
    as_user = ["runuser", "-u", _user(), "--"] if os.geteuid() == 0 else []
    command = [*as_user, str(program), *map(str, words)]
    ended = subprocess.run(
        command, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
