"""Passwords in URLs: what is shown of a place leaves them out, in whatever form they were given."""

import re
from urllib.parse import unquote_plus

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
