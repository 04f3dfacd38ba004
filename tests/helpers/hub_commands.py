"""Commands of `bench` in a process that uses the local test hub."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

PROGRAM = """
import contextlib, io, json, sys
from benchharness.cli.app import main
from benchharness.extensions.exports import cards

commands, cards.ANSWER_SECONDS = json.loads(sys.argv[1]), float(sys.argv[2])
answers = []
for words in commands:
    sys.argv, out, err, code = ["bench", *words], io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    answers.append((code, out.getvalue(), err.getvalue()))
print(json.dumps(answers))
"""


class Answer(NamedTuple):
    """Exit code of a command, and what it printed."""

    code: int
    out: str
    err: str


def run_on_hub(
    endpoint: str, home: Path, *commands: tuple[object, ...], seconds: float = 60, token: str = ""
) -> list[Answer]:
    """Run commands in one process, one after the other.

    Args:
        endpoint: Address of the hub.
        home: Empty folder for the caches of the hub's libraries.
        commands: Words after `bench` of each command.
        seconds: Time after which a request to the hub fails.
        token: Token of a user; empty for none.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    places = {"HF_ENDPOINT": endpoint, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    words = json.dumps([[str(word) for word in command] for command in commands])
    done = subprocess.run(
        (sys.executable, "-P", "-c", PROGRAM, words, str(seconds)),
        env=kept | places | ({"HF_TOKEN": token} if token else {}),
        cwd=home.parent,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [Answer(*answer) for answer in json.loads(done.stdout)]
