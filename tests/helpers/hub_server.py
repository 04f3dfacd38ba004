"""Local replacement of the Hugging Face hub that serves test repositories from a folder.

The real client libraries use it through HF_ENDPOINT, so that downloads are tested without a network
and without mocking. A repository is a folder `datasets/ORG/NAME` or `models/ORG/NAME` with one
folder per revision (40 hex digits) that contains the files; "main" is the revision that sorts last,
and other refs are given when the server starts.
"""

import hashlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit


class HubServer(ThreadingHTTPServer):
    """The server; `requests` lists "METHOD path" of all requests, and `taken` has all sent files.

    A commit becomes a new revision of its repository. `leaderboards` has the leaderboard of each
    data set that has one. Keys are parts of paths: `failing` paths get that status, `silent` ones
    no answer until the server ends, and `dropped` ones are obeyed but not answered. Half of a `cut`
    file is sent once before the connection is closed; a bit of a `flipped` file is changed.
    """

    daemon_threads = True

    def __init__(self, root: Path, refs: Mapping[str, str]) -> None:
        super().__init__(("127.0.0.1", 0), HubHandler)
        self.root = root
        self.refs = refs
        self.requests: list[str] = []
        self.failing: dict[str, int] = {}
        self.taken: dict[str, bytes] = {}
        self.leaderboards: dict[str, list[dict[str, Any]]] = {}
        self.silent = ""
        self.dropped = ""
        self.ending = threading.Event()
        self.cut: set[str] = set()
        self.flipped: set[str] = set()

    @property
    def endpoint(self) -> str:
        """The value for HF_ENDPOINT."""
        return f"http://127.0.0.1:{self.server_port}"

    def revision(self, kind: str, repo: str, name: str) -> Path | None:
        """Return the folder of a revision: a full digest, "main" or another ref."""
        folder = self.root / kind / repo
        if not folder.is_dir():
            return None
        if name == "main":
            return max(folder.iterdir())
        return next(
            (path for path in folder.iterdir() if path.name == self.refs.get(name, name)), None
        )


@contextmanager
def serve_hub(root: Path, refs: Mapping[str, str] | None = None) -> Iterator[HubServer]:
    """Serve the repositories under `root` until the block ends; `refs` maps names to digests."""
    server = HubServer(root, refs or {})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()


class HubHandler(BaseHTTPRequestHandler):
    """The part of the hub's HTTP interface that downloads need."""

    protocol_version = "HTTP/1.1"
    server: HubServer

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        """Print nothing: the tests read `HubServer.requests`."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        quoted = urlsplit(self.path).path
        path = unquote(quoted)
        self.server.requests.append(f"{self.command} {path}")
        if self.server.silent and self.server.silent in path:
            self.server.ending.wait()
            self.close_connection = True
            return
        for part, status in self.server.failing.items():
            if part in path:
                self._send(status, b"", {"Retry-After": "0"})
                return
        # A slash inside a ref is percent-encoded, so it is not a separator.
        parts = [unquote(part) for part in quoted.strip("/").split("/")]
        if parts[0] == "api" and len(parts) >= 4:
            self._answer_api(parts[1], "/".join(parts[2:4]), parts[4:], body)
        elif "resolve" in parts:
            at = parts.index("resolve")
            kind = "datasets" if parts[0] == "datasets" else "models"
            repo = "/".join(parts[at - 2 : at])
            self._answer_file(kind, repo, parts[at + 1], "/".join(parts[at + 2 :]))
        else:
            is_known = path in ("/", "/api/validate-yaml")
            self._send_json({"hub": "stand-in"}, 200 if is_known else 404)

    def _answer_api(self, kind: str, repo: str, rest: list[str], body: bytes) -> None:
        """Answer an API request.

        `rest` is [], "refs", "leaderboard", or "revision", "tree" or "paths-info" with a revision
        and a path.
        """
        action, revision = rest[0] if rest else "", rest[1] if len(rest) > 1 else "main"
        if action == "leaderboard":
            found = self.server.leaderboards.get(repo)
            error = {"error": "no leaderboard"}
            self._send_json(error if found is None else found, 404 if found is None else 200)
            return
        if action == "refs":
            self._send_json(_refs(self.server.refs))
            return
        folder = self.server.revision(kind, repo, revision)
        if folder is None:
            self._send_missing(kind, repo)
            return
        if action in ("preupload", "commit"):
            self._take(action, repo, folder, body)
            return
        entries = [_entry(folder, path) for path in sorted(folder.rglob("*"))]
        match action:
            case "tree":
                start = "/".join(rest[2:])
                self._send_json([e for e in entries if str(e["path"]).startswith(start)])
            case "paths-info":
                wanted = json.loads(body)["paths"]
                self._send_json([e for e in entries if e["path"] in wanted])
            case "" | "revision":
                self._send_json(_info(repo, folder, entries))
            case _:
                self._send_json({"error": "not found"}, 404)

    def _take(self, action: str, repo: str, folder: Path, body: bytes) -> None:
        """Accept a commit of small files from a client with a token, as a new revision."""
        if not self.headers.get("Authorization"):
            self._send_json({"error": "no token"}, 401)
        elif action == "preupload":
            files = [each["path"] for each in json.loads(body)["files"]]
            modes = [{"path": p, "uploadMode": "regular", "shouldIgnore": False} for p in files]
            self._send_json({"files": modes})
        else:
            lines = [json.loads(line)["value"] for line in body.splitlines()]
            sent = {f["path"]: b64decode(f["content"]) for f in lines[1:]}
            self.server.taken |= sent
            commit = write_revision(folder, sent).name
            url = f"{self.server.endpoint}/{repo}/commit/{commit}"
            self._send_json({"success": True, "commitOid": commit, "commitUrl": url})

    def _answer_file(self, kind: str, repo: str, revision: str, name: str) -> None:
        folder = self.server.revision(kind, repo, revision)
        if folder is None:
            self._send_missing(kind, repo)
        elif not (folder / name).is_file():
            self._send(404, b"", {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": folder.name})
        else:
            self._send_file(folder, name)

    def _send_file(self, folder: Path, name: str) -> None:
        content = (folder / name).read_bytes()
        headers = {
            "ETag": f'"{_git_digest(content)}"',
            "X-Repo-Commit": folder.name,
            "Accept-Ranges": "bytes",
        }
        if name in self.server.flipped:
            content = content[:-1] + bytes([content[-1] ^ 1])
        asked = self.headers.get("Range", "")
        if name in self.server.cut and self.command == "GET":
            self.server.cut.remove(name)
            self._send(200, content, headers, sent=len(content) // 2)
            return
        if not asked.startswith("bytes="):
            self._send(200, content, headers)
            return
        start, _, end = asked.removeprefix("bytes=").partition("-")
        first, last = int(start), min(int(end or len(content)), len(content) - 1)
        headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
        self._send(206, content[first : last + 1], headers)

    def _send_missing(self, kind: str, repo: str) -> None:
        known = (self.server.root / kind / repo).is_dir()
        self._send(404, b"", {"X-Error-Code": "RevisionNotFound" if known else "RepoNotFound"})

    def _send_json(self, value: object, status: int = 200) -> None:
        self._send(status, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def _send(
        self, status: int, content: bytes, headers: dict[str, str], sent: int | None = None
    ) -> None:
        """Send an answer; if only `sent` bytes are sent, close the connection after them."""
        if self.server.dropped and self.server.dropped in self.path:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[:sent])
        self.close_connection |= sent is not None


def write_revision(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Add a revision to a repository: that of `folder` with other `files`; return its folder."""
    made = folder.with_name(f"{int(folder.name, 16) + 1:040x}")
    shutil.copytree(folder, made)
    for path, content in files.items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_bytes(content)
    return made


def _entry(folder: Path, path: Path) -> dict[str, object]:
    name = path.relative_to(folder).as_posix()
    if path.is_dir():
        return {"type": "directory", "path": name, "oid": "0" * 40, "size": 0}
    content = path.read_bytes()
    return {"type": "file", "path": name, "oid": _git_digest(content), "size": len(content)}


def _git_digest(content: bytes) -> str:
    """Return the name that git, and so the hub, gives to this content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _refs(refs: Mapping[str, str]) -> dict[str, object]:
    """Return all refs except "main" as tags."""
    main = {"name": "main", "ref": "refs/heads/main", "targetCommit": "0" * 40}
    tags = [
        {"name": name, "ref": f"refs/tags/{name}", "targetCommit": commit}
        for name, commit in refs.items()
    ]
    return {"branches": [main], "converts": [], "tags": tags}


def _info(repo: str, folder: Path, entries: list[dict[str, object]]) -> dict[str, object]:
    files = [{"rfilename": e["path"], "size": e["size"]} for e in entries if e["type"] == "file"]
    moment = datetime.fromtimestamp(folder.stat().st_mtime, UTC).isoformat(timespec="milliseconds")
    times = {"lastModified": moment.replace("+00:00", "Z")}
    names = {"id": repo, "modelId": repo, "sha": folder.name}
    return {**names, **times, "private": False, "siblings": files}


PROGRAM = """
import json, sys
from benchharness.errors import BenchError
from benchharness.tasks.read import read
from benchharness.tasks.sources import parse_data, rows
from benchharness.tasks.suites import TASKS

answer, status = {}, 0
for name in sys.argv[1:]:
    task, split = name.split(":")
    try:
        digest = read(TASKS[task], split, parse_data("hub")).fingerprint
        answer[name] = [digest, rows(TASKS[task].source, split, parse_data("hub"))]
    except BenchError as error:
        print(error, file=sys.stderr)
        status = error.exit_code
json.dump(answer, sys.stdout, default=str)  # a corpus
sys.exit(status)
"""


class SilentHub:
    """A server that accepts connections and never answers."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener

    @property
    def endpoint(self) -> str:
        """The value for HF_ENDPOINT."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def count_connections(self) -> int:
        """Return the number of connections that were opened since the last call."""
        self._listener.setblocking(False)
        count = 0
        with suppress(BlockingIOError):
            while True:
                self._listener.accept()[0].close()
                count += 1
        return count


@contextmanager
def silent_hub(port: int = 0) -> Iterator[SilentHub]:
    """Run a hub that never answers; `port` 0 chooses a free port."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        yield SilentHub(listener)


@dataclass(frozen=True)
class Answer:
    """Outcome of a process that reads through the hub."""

    status: int
    rows: Mapping[str, Any]
    error: str


def ask(endpoint: str, home: Path, *names: str, folder: Path | None = None) -> Answer:
    """Read "task:split" names in a process; `rows` has each one's fingerprint and rows."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    env = kept | {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, *names],
        env=env,
        cwd=folder or home.parent,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    found = json.loads(done.stdout) if done.stdout else {}
    return Answer(status=done.returncode, rows=found, error=done.stderr)
