"""Tests of `bench demo`; tests/test_howto.py compares its table with the README."""

from benchharness.driver.options import RunOptions
from benchharness.extensions.demo import command


def test_demo_plans_a_run_of_glue_with_packaged_model_and_data(bench):
    demo = bench("demo", "--dry-run")
    assert (demo.code, demo.err) == (0, "")
    said, plan = demo.out.split("\n", 1)
    words = "run --model tiny --suite glue --data mini --seeds 1"
    assert said == f"The demo is `bench {words}`."
    assert plan == bench(*words.split(), "--dry-run").out
    assert "1 model x 9 tasks x 1 seed" in plan


def test_demo_passes_its_options_to_the_run(bench, monkeypatch):
    called = []
    monkeypatch.setattr(command, "run", lambda options, out: called.append((options, out)))
    ended = bench(
        "demo", "--seeds", "3", "--db", "a b.sqlite", "--device", "cpu", "--out", "o.html"
    )
    assert ended.code == 0, ended.err
    assert "--seeds 3 --db 'a b.sqlite'`" in ended.out
    whole = RunOptions(
        model=("tiny",), suite=("glue",), data="mini", seeds=3, db="a b.sqlite", device="cpu"
    )
    assert called == [(whole, "o.html")]
