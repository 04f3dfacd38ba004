"""Tests of the number of benchharness modules that a run of one suite imports."""

import subprocess
import sys

import pytest

MOST = 250

WORKERS = """
import os, sys
from pathlib import Path
def leave(status, end=os._exit):
    ours = (name for name in sys.modules if name.split(".")[0] == "benchharness")
    Path(f"worker.{os.getpid()}").write_text(" ".join(ours))
    large = ("scipy", "sklearn", "sympy", "torch._inductor", "torch.distributed.tensor")
    Path("large").write_text(" ".join(name for name in large if name in sys.modules))
    end(status)
os._exit = leave
from benchharness.worker.fork_server import run
run()
"""
"""Patch for forked workers, which then list their loaded modules when they end."""

DRIVER = f"""
import atexit, sys
from pathlib import Path
ours = lambda: (name for name in sys.modules if name.split(".")[0] == "benchharness")
heavy = ("pydantic", "torch")
atexit.register(lambda: Path("driver").write_text(" ".join(ours())))
atexit.register(lambda: Path("heavy").write_text(" ".join(n for n in heavy if n in sys.modules)))
from benchharness.engines import fork_server
fork_server.COMMAND = (sys.executable, "-P", "-c", {WORKERS!r})
from benchharness.cli.app import main
sys.argv = ["bench", "run", "--model", "tiny", "--suite", "glue", "--task", "rte", "--data", "mini"]
sys.argv += ["--limit", "8", "--seeds", "1", "--set", "epochs=1", "--jobs", "1"]
sys.argv += ["--no-baselines"]
main()
"""


def test_a_run_of_glue_imports_a_bounded_number_of_modules(tmp_path):
    """Count the modules of the driver, which writes a report, and of a worker together."""
    command = (sys.executable, "-P", "-c", DRIVER)
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    driver = set((tmp_path / "driver").read_text().split())
    (file,) = tmp_path.glob("worker.*")
    worker = set(file.read_text().split())
    assert {"benchharness.cli.run", "benchharness.leaderboard.report.write"} <= driver
    assert "benchharness.worker.job" in worker
    assert (tmp_path / "heavy").read_text() == ""
    assert (tmp_path / "large").read_text() == ""
    assert not driver & {"benchharness.worker.job", "benchharness.training.loop"}
    assert len(driver | worker) < MOST, sorted(driver | worker)


COMPILING = """
import sys
from benchharness.worker import NoCompiler, importing
with importing():
    assert not hasattr(sys.modules["torch._dynamo"], "optimize")
    import torch.utils.checkpoint
assert type(sys.modules["torch._dynamo"]) is NoCompiler
optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(3))])
optimizer.step()
assert torch.compiler.disable(recursive=False)(abs) is torch.compiler.disable(abs) is abs
from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
state = torch.ones(1, requires_grad=True)
torch.utils.checkpoint.checkpoint(torch.exp, state, use_reentrant=False).backward()
assert "sympy" not in sys.modules
import torch._dynamo.utils
torch._dynamo.config.suppress_errors = True
assert torch._dynamo.config.suppress_errors
doubled = torch.compile(lambda x: 2 * x, backend="eager", fullgraph=True)
assert doubled(torch.ones(1)).item() == 2 and torch._dynamo.config.recompile_limit > 1
with TransformGetItemToIndex():
    assert torch.arange(3)[torch.tensor(1)] == 1
import torch._dynamo.eval_frame, torch._dynamo
assert torch._dynamo.eval_frame is sys.modules["torch._dynamo.eval_frame"]
assert type(torch._dynamo) is not NoCompiler
optimizer.step()
"""


@pytest.mark.soak
def test_torch_compiler_can_be_imported_in_a_worker_on_demand():
    """The code of a checkpoint or another library may need the compiler."""
    subprocess.run((sys.executable, "-P", "-c", COMPILING), check=True)
