"""Errors that a user can fix, with their exit codes.

    BenchError            2   an argument, a name or a setting is wrong
    |-- DataError         4   a file, a data set, the hub: missing or malformed
    |   `-- ForeignCodeError  code that data refer to and that no command has named
    |-- ModelError        4   a checkpoint: missing, not a checkpoint, or incomplete
    |-- JobError          1   a job that started and could not finish
    `-- StoreError        5   the leaderboard's database: locked, corrupt, too new

A message is one sentence with the thing, what was found, what was expected and the next step. Any
exception that is not a BenchError is a bug of benchharness and keeps its traceback.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from urllib.parse import unquote_plus


def one_line(sentence: object) -> str:
    """Return the sentence with every line break, e.g. of a name in it, replaced by a space."""
    return " ".join(str(sentence).splitlines())


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message; its type if the message is empty."""
    if isinstance(error, KeyError):  # its message is the key alone
        return f"{error} is missing"
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class BenchError(Exception):
    """Error that the user can fix; `exit_code` is the exit status of the process.

    Each argument is a sentence and is printed on one line, even if names in it have line breaks.
    Passwords in URLs are removed.
    """

    exit_code = 2

    def __init__(self, *sentences: object) -> None:
        super().__init__(*(without_passwords(str(each)) for each in sentences))

    def __str__(self) -> str:
        return "\n".join(map(one_line, self.args))


class DataError(BenchError):
    """Error: a data set, a file or the hub is missing or malformed."""

    exit_code = 4


class ForeignCodeError(DataError):
    """Error: data refer to code that no command of this user has named; it was not loaded."""


class ModelError(BenchError):
    """Error: a checkpoint is missing, is not a checkpoint, or lacks layers."""

    exit_code = 4


class JobError(BenchError):
    """Error: a job started and could not finish (diverged, killed, out of memory).

    `kind` is the kind of the Failure that records it.
    """

    exit_code = 1
    kind = "failed"


class StoreError(BenchError):
    """Error: the leaderboard's database is locked, corrupt or of a newer schema."""

    exit_code = 5


class BusyStoreError(StoreError):
    """Error: another process locks the database, or its server is away; waiting may help."""


def unknown_name(
    kind: str, name: str, known: Iterable[str], hint: str = "", other_names: Mapping[str, str] = {}
) -> BenchError:
    """Return the error for an unknown name: `no suite is called 'gleu'. Did you mean 'glue'?`.

    Args:
        kind: Noun for the thing, e.g. "suite".
        name: Name that was given.
        known: Names that exist; a close one is proposed.
        hint: End of the message if no name is close, e.g. "`bench show suites` shows them.".
        other_names: Known names by alternative (lower-case) names.
    """
    names = sorted(set(known))
    asked = name.lower()
    if other_names.get(asked) in names:
        close = [other_names[asked]]
    else:
        close = get_close_matches(asked, names, n=1, cutoff=0.6)
    advice = f"Did you mean {close[0]!r}?" if close else hint or f"Known: {', '.join(names)}."
    return BenchError(f"no {kind} is called {name!r}. {advice}")


# Passwords in URLs: messages leave them out, in whatever form they were given.

_SHOWN = """
service user channel_binding connect_timeout dbname host hostaddr port client_encoding options
application_name fallback_application_name keepalives keepalives_idle keepalives_interval
keepalives_count tcp_user_timeout sslmode sslnegotiation sslcompression sslcert sslkey sslcertmode
sslrootcert sslcrl sslcrldir sslsni requirepeer require_auth min_protocol_version
max_protocol_version ssl_min_protocol_version ssl_max_protocol_version gssencmode krbsrvname gsslib
gssdelegation target_session_attrs load_balance_hosts
"""
_HIDDEN = """
password passfile sslpassword scram_client_key scram_server_key
oauth_issuer oauth_client_id oauth_client_secret oauth_scope
"""
LIBPQ, SECRET = frozenset(_SHOWN.split()), frozenset(_HIDDEN.split())
"""PostgreSQL's options that may be shown, and the secret ones (libpq, "Parameter Key Words")."""

_SECRETIVE = re.compile(r"(?is)((pass|pwd|secret|token)\w*|(client|server|api)_?key)\s*=")
_USER_AND_PASSWORD = re.compile(r"(?s)([\w+.-]+:/*)([^:/@?]*):(.*)@(.*)")
_NO_PORT = re.compile(r"(://[^:/?\[]*):(?!\d*(?:[/?]|$))[^/?]*")
_IN_A_SENTENCE = re.compile(r"\b[A-Za-z][\w+.-]*:/+\S+")


def shown_place(place: str) -> str:
    """Return a path or URL for messages: as it was given, without its passwords.

    A password that was not percent-encoded can be parsed in several ways; every part that could
    belong to it is removed.
    """
    if not _IN_A_SENTENCE.match(place) and "@" not in place:
        return _SECRETIVE.split(place)[0] or "a database" if _SECRETIVE.search(place) else place
    if found := _USER_AND_PASSWORD.fullmatch(place):
        scheme, user, password, rest = found.groups()
        rest = "" if "?" in password and _SECRETIVE.search(unquote_plus(password)) else rest
        place = f"{scheme}{user}@{rest}"
    start, mark, query = _NO_PORT.sub(r"\1", place).partition("?")
    shown: list[str] = []
    is_after_one = False
    for part in query.split("&"):
        is_secret = _SECRETIVE.search(unquote_plus(unquote_plus(part))) is not None
        is_after_one |= is_secret
        # The parts after a password with an unencoded & may be the rest of it.
        if not (is_secret or (is_after_one and part.partition("=")[0] not in LIBPQ)):
            shown.append(part)
    return start + (mark + "&".join(shown) if any(shown) else "")


def without_passwords(sentence: str) -> str:
    """Return a sentence with the passwords in its URLs removed."""
    return _IN_A_SENTENCE.sub(lambda found: shown_place(found[0]), sentence)
