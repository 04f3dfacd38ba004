"""The errors that a user can mend, and the exit code of each.

    BenchError            2   an argument, a name or a setting is wrong
    |-- DataError         4   a file, a data set, the hub: missing or malformed
    |   `-- ForeignCodeError  code that data name and nobody here has
    |-- ModelError        4   a checkpoint: missing, not a checkpoint, or incomplete
    |-- JobError          1   a job that started and could not finish
    `-- StoreError        5   the leaderboard's database: locked, corrupt, too new

The message is one sentence that names the thing, what was found, what was expected and the next
step. Anything that is not a BenchError is a bug of ours and keeps its traceback.
"""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from urllib.parse import unquote_plus


def one_line(sentence: object) -> str:
    """The sentence, also where a name in it has line breaks."""
    return " ".join(str(sentence).splitlines())


def first_line(error: BaseException) -> str:
    """What an error says first, or what it is."""
    if isinstance(error, KeyError):  # which says the key alone
        return f"{error} is missing"
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class BenchError(Exception):
    """Something the user can mend; `exit_code` is the process's exit status.

    Each argument is a sentence and a line, whatever line breaks the names in it have.
    None shows a password of an URL.
    """

    exit_code = 2

    def __init__(self, *sentences: object) -> None:
        super().__init__(*(without_passwords(str(each)) for each in sentences))

    def __str__(self) -> str:
        return "\n".join(map(one_line, self.args))


class DataError(BenchError):
    """A data set, a file or the hub is missing or malformed."""

    exit_code = 4


class ForeignCodeError(DataError):
    """Data name code that no command of this user has named, so it was not loaded."""


class ModelError(BenchError):
    """A checkpoint is missing, is not a checkpoint, or lacks layers."""

    exit_code = 4


class JobError(BenchError):
    """A job started and could not finish (diverged, killed, out of memory).

    `kind` is that of the Failure that it becomes.
    """

    exit_code = 1
    kind = "failed"


class StoreError(BenchError):
    """The leaderboard's database is locked, corrupt or of a newer schema."""

    exit_code = 5


class BusyStoreError(StoreError):
    """Another process has the leaderboard's database, or its server is away: waiting may help."""


def unknown_name(
    kind: str, name: str, known: Iterable[str], hint: str = "", other_names: Mapping[str, str] = {}
) -> BenchError:
    """The error for a name that is in no table: `no suite is called 'gleu'. ...`.

    A close name is proposed ("Did you mean 'glue'?"); `hint` ends the sentence when nothing is
    close, e.g. "`bench show suites` shows them". `other_names` are what others call the known ones.
    """
    names = sorted(set(known))
    asked = name.lower()
    if other_names.get(asked) in names:
        close = [other_names[asked]]
    else:
        close = get_close_matches(asked, names, n=1, cutoff=0.6)
    advice = f"Did you mean {close[0]!r}?" if close else hint or f"Known: {', '.join(names)}."
    return BenchError(f"no {kind} is called {name!r}. {advice}")


# Passwords in URLs: what is shown of a place leaves them out, in whatever form they were given.

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
"""PostgreSQL's options that anybody may see, and the others (libpq, "Parameter Key Words")."""

_SECRETIVE = re.compile(r"(?is)((pass|pwd|secret|token)\w*|(client|server|api)_?key)\s*=")
_USER_AND_PASSWORD = re.compile(r"(?s)([\w+.-]+:/*)([^:/@?]*):(.*)@(.*)")
_NO_PORT = re.compile(r"(://[^:/?\[]*):(?!\d*(?:[/?]|$))[^/?]*")
_IN_A_SENTENCE = re.compile(r"\b[A-Za-z][\w+.-]*:/+\S+")


def shown_place(place: str) -> str:
    """How messages call a path or an URL: as it was given, without its passwords.

    A password that was not encoded may be read in several ways; what could be one is left out.
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
        # Behind a password with a bare & stands the rest of it.
        if not (is_secret or (is_after_one and part.partition("=")[0] not in LIBPQ)):
            shown.append(part)
    return start + (mark + "&".join(shown) if any(shown) else "")


def without_passwords(sentence: str) -> str:
    """A sentence in which the URLs, if there are any, have no passwords."""
    return _IN_A_SENTENCE.sub(lambda found: shown_place(found[0]), sentence)
