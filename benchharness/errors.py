"""Errors that a user can fix, with their exit codes.

    BenchError            2   an argument, a name or a setting is wrong
    |-- DataError         4   a file, a data set or the hub is missing or malformed
    |   `-- ForeignCodeError  data need third-party code that the user has not permitted
    |-- ModelError        4   a checkpoint is missing, is not a checkpoint, or is incomplete
    |-- JobError          1   a job started and could not finish
    `-- StoreError        5   the leaderboard's database is locked, corrupt or too new
        `-- BusyStoreError    the database is locked, or its server does not respond

A message is a sentence that names the object, states what was found and what was expected, and
suggests the next step. Any other exception is a bug in benchharness and is shown with a traceback.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from urllib.parse import unquote_plus


def one_line(sentence: object) -> str:
    """Return a sentence on one line: line breaks, such as those in file names, become spaces."""
    return " ".join(str(sentence).splitlines())


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or the error's type if the message is empty.

    For a KeyError, whose message is only the key, the text is "KEY is missing".
    """
    if isinstance(error, KeyError):  # the message of a KeyError is only the key
        return f"{error} is missing"
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class BenchError(Exception):
    """Base class of errors that the user can fix.

    Each argument is a sentence, which is printed on one line even if it contains line breaks.
    Passwords in URLs are removed. `exit_code` is the exit code of a command that raises the error.
    """

    exit_code = 2

    def __init__(self, *sentences: object) -> None:
        super().__init__(*(without_passwords(str(each)) for each in sentences))

    def __str__(self) -> str:
        return "\n".join(map(one_line, self.args))


class DataError(BenchError):
    """Raised if a data set or a file is missing or malformed, or if the hub cannot be reached."""

    exit_code = 4


class ForeignCodeError(DataError):
    """Raised if data need third-party code, for example of a metric, that the user does not trust.

    The code was not loaded.
    """


class ModelError(BenchError):
    """Raised if a checkpoint is missing, incomplete or unusable."""

    exit_code = 4


class JobError(BenchError):
    """Raised if a job started but could not finish, for example because it ran out of memory.

    The class attribute `kind` is a word for the cause, such as "failed" or "memory", which is
    stored with the failure of the job.
    """

    exit_code = 1
    kind = "failed"


class StoreError(BenchError):
    """Raised if the leaderboard's database is locked, is corrupt, or has a newer schema."""

    exit_code = 5


class BusyStoreError(StoreError):
    """Raised if the database is locked or its server does not respond.

    The same operation may succeed later.
    """


def unknown_name(
    kind: str, name: str, known: Iterable[str], hint: str = "", other_names: Mapping[str, str] = {}
) -> BenchError:
    """Return the error for an unknown name.

    An example of its message is "no suite is called 'gleu'. Did you mean 'glue'?".

    Args:
        kind: Noun for the kind of object that has the name, such as "suite".
        name: The unknown name.
        known: Existing names. The message suggests one of them if it is similar.
        hint: End of the message if no name is similar, such as "`bench show suites` shows them.".
            By default, the message then lists all existing names.
        other_names: Existing names, keyed by their aliases in lower case. If the unknown name is an
            alias, the message suggests the existing name.
    """
    names = sorted(set(known))
    asked = name.lower()
    if other_names.get(asked) in names:
        close = [other_names[asked]]
    else:
        close = get_close_matches(asked, names, n=1, cutoff=0.6)
    advice = f"Did you mean {close[0]!r}?" if close else hint or f"Known: {', '.join(names)}."
    return BenchError(f"no {kind} is called {name!r}. {advice}")


# Removing passwords in URLs from messages.

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
"""Connection options of PostgreSQL that may be shown, and those that must be kept secret. They are
listed in "Parameter Key Words" in the documentation of libpq."""

_SECRETIVE = re.compile(r"(?is)((pass|pwd|secret|token)\w*|(client|server|api)_?key)\s*=")
_USER_AND_PASSWORD = re.compile(r"(?s)([\w+.-]+:/*)([^:/@?]*):(.*)@(.*)")
_NO_PORT = re.compile(r"(://[^:/?\[]*):(?!\d*(?:[/?]|$))[^/?]*")
_IN_A_SENTENCE = re.compile(r"\b[A-Za-z][\w+.-]*:/+\S+")


def shown_place(place: str) -> str:
    """Return a path or URL without its passwords, so that it can be shown in messages.

    If a password is not percent-encoded, its end is unknown, and every part of the URL that may
    belong to the password is removed. If nothing remains, the result is "a database".
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
        # If a password contains an unencoded "&", the parts that follow may belong to it.
        if not (is_secret or (is_after_one and part.partition("=")[0] not in LIBPQ)):
            shown.append(part)
    return start + (mark + "&".join(shown) if any(shown) else "")


def without_passwords(sentence: str) -> str:
    """Return the sentence without the passwords in its URLs."""
    return _IN_A_SENTENCE.sub(lambda found: shown_place(found[0]), sentence)
