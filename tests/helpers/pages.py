"""Parser and runner of the code blocks of a page of the documentation.

A block is indented by four spaces. Its first word, or a comment before it, gives its kind:

* command: it begins as in `COMMANDS`. The blocks of a page run in one
  bash session. A command that has to fail ends with the remark `# exit code N`.
* Python: it begins with `import` or `from`, which starts a new interpreter. After the comment
  `<!-- python -->` a block continues in the interpreter of the Python block before.
* output: after `<!-- output -->`, all that the block before prints to stdout; after
  `<!-- messages -->`, what it prints to stderr. A line `...` stands for any number of lines, and
  `...` within a line for any text.
* file: after `<!-- file: NAME -->`, the content of a file that the page has made, as an output.
* not run: after `<!-- not run: REASON -->`, anything.
"""

import contextlib
import difflib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from markdown_it import MarkdownIt

COMMANDS = re.compile(
    r"(?:bench|bash|cat|cd|cp|curl|diff|docker|echo|env|export|find|for|git|grep|head|hf|if|ls"
    r"|make|mkdir|mlflow|mv|pip|printf|psql|pytest|python3?|ray|rm|sbatch|scancel|sed|sleep|sort"
    r"|sqlite3|tail|tensorboard|test|timeout|torchrun|touch|unzip|wandb|wc|while)\s"
    r"|[A-Za-z_]\w*=\S"
)
"""Beginning of a block of commands."""

MARKER = re.compile(r"<!-- (output|messages|python|file|not run)(?:: (.+))? -->")
EXIT_CODE = re.compile(r"\s+# exit code (\d+)\s*$")

_AMOUNT = (
    r"\b\d[\d,.]* ?(?:hours?|minutes?|seconds?|h|min|ms|s|[kMGT]i?B|k?Wh|k?J"
    r"|(?:tokens|examples|rows|steps)/s)\b(?!/)"
)
VARYING = (
    (r"\b[0-9a-f]{64}\b|\b(?=[a-f]*\d)[0-9a-f]{12}\b", "KEY"),
    (r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?", "DATE"),
    (r"\b\d+(?:\.\d+){2,}[\w.+-]*", "VERSION"),
    (r"\b\d[\d,]* \d[\d,.]* MB\b", "AMOUNT AMOUNT"),  # two columns: tokens per second, and memory
    (_AMOUNT, "AMOUNT"),
)
"""Patterns of what differs between machines and runs, and the word that replaces it."""

TOLERANCE = 1.5
"""Accepted difference of a decimal number: scores differ slightly between versions of libraries."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Code block of a page."""

    line: int
    text: str
    kind: str
    """command, python, output, messages, file, not run, or unknown."""

    detail: str = ""
    """Name of a file, or reason for a block that is not run."""

    continues: bool = False
    """True for Python that runs in the interpreter of the block before."""


def blocks_of(page: Path) -> list[Block]:
    """Return the code blocks of a page in their order.

    Raises:
        ValueError: A marker is not followed by a code block.
    """
    blocks: list[Block] = []
    marker: re.Match[str] | None = None
    for token in MarkdownIt().enable("table").parse(page.read_text(encoding="utf-8")):
        line = token.map[0] + 1 if token.map else 0
        if token.type in ("code_block", "fence"):
            blocks.append(_block(line, token.content.strip("\n") + "\n", marker))
            marker = None
            continue
        if marker is not None:
            raise ValueError(f"{page.name}:{line}: no code block follows {marker[0]}")
        if token.type == "html_block":
            marker = MARKER.fullmatch(token.content.strip())
    return blocks


def _block(line: int, text: str, marker: re.Match[str] | None) -> Block:
    """Return the block with the kind that its marker or its first word gives."""
    if marker is not None:
        kind, detail = marker[1], marker[2] or ""
        if (kind in ("file", "not run")) != bool(detail):
            return Block(line=line, text=text, kind="unknown")
        return Block(line=line, text=text, kind=kind, detail=detail, continues=kind == "python")
    if COMMANDS.match(text):
        return Block(line=line, text=text, kind="command")
    if re.match(r"(?:import|from)\s", text):
        return Block(line=line, text=text, kind="python")
    return Block(line=line, text=text, kind="unknown")


def form_faults(page: Path) -> list[str]:
    """Return the faults in the form of a page: blocks of no kind, and no block that runs."""
    faults = []
    has_run = False
    can_continue = False
    for block in blocks_of(page):
        place = f"{page.name}:{block.line}"
        if block.kind == "unknown":
            first = block.text.splitlines()[0]
            faults.append(f"{place}: the kind of this block is unknown: {first!r}")
        elif block.kind in ("output", "messages") and not has_run:
            faults.append(f"{place}: output of a block that is not run")
        elif block.continues and not can_continue:
            faults.append(f"{place}: no Python block is before this one, which continues it")
        if block.kind in ("command", "python", "not run"):
            has_run = block.kind != "not run"
            can_continue = can_continue or block.kind == "python"
    if not any(block.kind in ("command", "python") for block in blocks_of(page)):
        faults.append(f"{page.name}: no block of this page runs")
    return faults


def script(text: str) -> str:
    """Return commands as a script for `bash -e` that checks the exit codes in remarks."""
    done: list[str] = []
    begin = 0
    for line in text.splitlines():
        done.append(line)
        if line.endswith("\\"):
            continue
        if found := EXIT_CODE.search(line):
            done[begin] = "{ " + done[begin]
            done.append("} && _code=0 || _code=$?")
            problem = f"exit code $_code instead of {found[1]}: {shlex.quote(line)}"
            done.append(f'[ "$_code" = {found[1]} ] || {{ echo {problem} >&2; exit 1; }}')
        begin = len(done)
    return "\n".join(done) + "\n"


BASH = """
while IFS= read -r block; do
    . "$block" < /dev/null > "$block.out" 2> "$block.err"
    pwd
done
"""

PYTHON = """
import os, sys
blocks, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
names = {"__name__": "__main__"}
sys.path.insert(0, "")
for block in blocks:
    block = block.strip()
    for descriptor, ending in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(block + ending, os.O_WRONLY | os.O_CREAT, 0o644), descriptor)
    with open(block, encoding="utf-8") as source:
        code = compile(source.read(), block, "exec")
    exec(code, names)
    sys.stdout.flush()
    sys.stderr.flush()
    print(os.getcwd(), file=answers, flush=True)
"""


class BlockError(Exception):
    """A block of a page ended with an error."""


class Interpreter:
    """Process that runs blocks, one after the other, until one fails."""

    def __init__(self, command: Sequence[str], folder: str, environment: dict[str, str]) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, file: Path) -> None:
        """Run the block of a file, with its output in .out and .err next to it.

        Raises:
            BlockError: The block fails; the text has the end of its output.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{file}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            code = self._process.wait()
            texts = [(out_of(file, end).strip() or "nothing")[-2000:] for end in ("out", "err")]
            raise BlockError(f"exit code {code}\nstdout: {texts[0]}\nstderr: {texts[1]}")
        self.folder = answer.rstrip("\n")

    def close(self) -> None:
        """End the process and everything that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()


def out_of(file: Path, ending: str) -> str:
    """Return the output of the block of a file."""
    place = Path(f"{file}.{ending}")
    return place.read_text(encoding="utf-8", errors="replace") if place.exists() else ""


class Session:
    """Empty folder and home in which the blocks of a page run in their order."""

    def __init__(self, folder: Path) -> None:
        self._blocks, self.home, self.folder = (
            folder / name for name in ("blocks", "home", "work")
        )
        for place in (self._blocks, self.home, self.folder):
            place.mkdir()
        programs = Path(sys.executable).parent
        self._environment = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TMPDIR": os.environ.get("TMPDIR", "/tmp"),
            "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            # The same kernels on every processor, so that trainings end with a page's scores.
            "ATEN_CPU_CAPABILITY": "avx2",
            "MKL_CBWR": "COMPATIBLE",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
        }
        self._bash = Interpreter(("bash", "-ec", BASH), str(self.folder), self._environment)
        self._python: Interpreter | None = None
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._bash.close()
        if self._python is not None:
            self._python.close()

    def run(self, block: Block) -> tuple[str, str]:
        """Run a block of commands or of Python; return what it prints to stdout and stderr."""
        self._count += 1
        file = self._blocks / f"{self._count}"
        if block.kind == "command":
            file.write_text(script(block.text), encoding="utf-8")
            self._bash.run(file)
        else:
            file.write_text(block.text, encoding="utf-8")
            self._python_for(block).run(file)
        return out_of(file, "out"), out_of(file, "err")

    def file(self, name: str) -> str:
        """Return the text of a file that the page has made, relative to where its shell is."""
        return (Path(self._bash.folder) / name).read_text(encoding="utf-8")

    def _python_for(self, block: Block) -> Interpreter:
        """Return the interpreter of the block before, or a new one."""
        if self._python is None or not block.continues:
            if self._python is not None:
                self._python.close()
            command = (sys.executable, "-c", PYTHON)
            self._python = Interpreter(command, self._bash.folder, self._environment)
        return self._python


def run_page(page: Path, folder: Path) -> list[str]:
    """Run the blocks of a page from an empty folder; return its faults, empty if all is right."""
    return list(_faults(page, folder))


def _faults(page: Path, folder: Path) -> Iterator[str]:
    printed = ("", "")
    with Session(folder) as session:
        for block in blocks_of(page):
            place = f"{page.name}:{block.line}"
            if block.kind in ("command", "python"):
                try:
                    printed = session.run(block)
                except BlockError as error:
                    yield f"{place}: {error}\n{block.text}"
                    return
            elif block.kind in ("output", "messages"):
                actual = printed[block.kind == "messages"]
                if not matches(block.text, actual):
                    yield f"{place}: {block.kind} differs\n{difference(block.text, actual)}"
            elif block.kind == "file":
                actual = session.file(block.detail)
                if not matches(block.text, actual):
                    yield f"{place}: {block.detail} differs\n{difference(block.text, actual)}"


def lines_of(text: str) -> list[str]:
    """Return the lines of a text without space at their ends, nor empty lines around them."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip("\n").splitlines()


def matches(shown: str, actual: str) -> bool:
    """Return whether an output that a page shows is the actual output of a program.

    Keys, dates, versions, times, sizes and speeds may differ, decimal numbers by `TOLERANCE`, and
    the width of columns.
    """
    return _lines_match(lines_of(shown), lines_of(actual))


def _lines_match(shown: list[str], actual: list[str]) -> bool:
    """Return whether lines match, of which `...` stands for any number."""
    if not shown:
        return not actual
    if shown[0].strip() == "...":
        return any(_lines_match(shown[1:], actual[n:]) for n in range(len(actual) + 1))
    return (
        bool(actual) and line_matches(shown[0], actual[0]) and _lines_match(shown[1:], actual[1:])
    )


NUMBER = r"\d+\.\d+"


def plain(line: str) -> str:
    """Return a line with single spaces, and with words instead of what varies."""
    line = " ".join(line.split())
    for pattern, word in VARYING:
        line = re.sub(pattern, word, line)
    return re.sub("─+", "─", line)


def line_matches(shown: str, actual: str) -> bool:
    """Return whether a line that a page shows is the actual one."""
    shown = plain(shown)
    pattern = "".join(
        ".*" if part == "..." else f"({NUMBER})" if re.fullmatch(NUMBER, part) else re.escape(part)
        for part in re.split(rf"(\.\.\.|{NUMBER})", shown)
    )
    found = re.fullmatch(pattern, plain(actual))
    if found is None:
        return False
    pairs = zip(re.findall(NUMBER, shown), found.groups(), strict=True)
    return all(abs(float(one) - float(other)) <= TOLERANCE for one, other in pairs)


def difference(shown: str, actual: str) -> str:
    """Return a diff of an output on a page and the actual one, without lines that match."""
    expected = lines_of(shown)
    found = [
        next((each for each in expected if each != "..." and line_matches(each, line)), line)
        for line in lines_of(actual)
    ]
    return "\n".join(difflib.unified_diff(expected, found, "page", "program", lineterm="", n=1))
