"""Speed ratios, shares of peak and bounds of benchmark records, and the page that shows them."""

import re
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

from benchmarks import tables
from benchmarks.figures import Comparison, comparisons, floor_seconds, mean_ratio, training_flops
from benchmarks.growth import SERIES, Point
from benchmarks.growth_figure import curves, growth_figure
from benchmarks.step_profile import FIRST, LAUNCHES, OTHER, WAITS, count_calls, kind_of
from tests.helpers.measured import make_run

MODEL = {
    "model_type": "bert",
    "num_hidden_layers": 6,
    "hidden_size": 384,
    "intermediate_size": 1536,
}


def make_record(task="glue/rte", note=""):
    runs = [
        run
        for seed, drift in ((1, 1.0), (2, 3.0), (3, 2.0))
        for run in (
            make_run("ours", seed, 10.0 * drift, 4.0),
            make_run("best", seed, 30.0 * drift, 20.0),
            make_run("default", seed, 100.0 * drift, 80.0),
        )
    ]
    head = {"name": "RTE", "task": task, "train_rows": 64, "head": "pair", "runs": runs}
    return {
        "measured": "2026-11-21T12:00+00:00",
        "commit": "abc1234",
        "note": note,
        "model": MODEL,
        "machine": {
            "processor": "a processor",
            "cores": 2,
            "matrix_units": [],
            "threads": "all",
            "versions": {"torch": "2.13.0"},
        },
        "peak_gflops": [{"fp32": 90.0, "bf16": 150.0}, {"fp32": 100.0, "bf16": 140.0}],
        "workloads": [head],
    }


def make_comparison():
    record = make_record()
    return Comparison.of(record["workloads"][0], record)


def test_training_flops_count_the_matrix_products_of_a_step():
    """Count product by product: one layer of size 2 and inner size 3 on one row of 5 tokens."""
    model = {"num_hidden_layers": 1, "hidden_size": 2, "intermediate_size": 3}
    weights = 4 * (2 * 5 * 2 * 2) + 2 * (2 * 5 * 2 * 3)
    attention = 2 * (2 * 5 * 5 * 2)
    assert training_flops(model, tokens=5, squares=25) == 3 * (weights + attention)


def test_speed_ratios_are_robust_to_a_machine_that_slows_down():
    comparison = make_comparison()
    assert comparison.ratio("best") == 3.0
    assert comparison.ratio("default", "cpu_seconds") == 10.0
    assert mean_ratio([comparison, comparison], "best") == pytest.approx(3.0)
    assert "3.0 times as fast as best" in comparison.sentence()


def test_benchmark_program_that_was_not_run_has_no_speed_ratio():
    record = make_record()
    runs = record["workloads"][0]["runs"]
    record["workloads"][0]["runs"] = [run for run in runs if run["side"] != "default"]
    comparison = Comparison.of(record["workloads"][0], record)
    assert comparison.ratio("default") is None
    assert comparison.middle("default", "seconds") is None
    assert comparison.share_of_peak("default") is None
    assert mean_ratio([comparison], "default") is None


def test_benchmark_comparison_omits_a_workload_without_runs():
    record = make_record()
    record["workloads"].append({**record["workloads"][0], "runs": []})
    assert len(comparisons(record)) == 1


def test_share_of_peak_uses_the_peak_in_the_precision_of_each_program():
    comparison = make_comparison()
    flops = training_flops(MODEL, 1000, 50_000)
    assert comparison.share_of_peak("ours") == pytest.approx(flops / 4.0 / 150e9)
    assert comparison.share_of_peak("default") == pytest.approx(flops / 80.0 / 100e9)
    assert floor_seconds(comparison) == pytest.approx(flops / 150e9)


PAGE = "".join(f"<!-- {name} -->\nold\n<!-- end of {name} -->\ntext\n" for name in tables.BLOCKS)


def make_points():
    return [
        {
            "series": series,
            "rows": point.rows,
            "tokens": point.tokens,
            "layers": point.layers,
            "seeds": point.seeds,
            "side": "ours",
            "seconds": 5.0 + number,
            "cpu_seconds": 4.0,
            "peak_bytes": 1e9,
        }
        for series, points in SERIES.items()
        for number, point in enumerate(points)
    ]


def test_filling_the_performance_page_is_idempotent():
    seconds = {"matrix products": 1.0, "attention": 1.0, OTHER: 2.0}
    profile = {"profiles": {"glue/rte": {"seconds": seconds}}, "note": ""}
    records = {
        "speed": make_record(note="Preliminary."),
        "seeds": make_record(task="squad/v1.1"),
        "growth": {"points": make_points(), "note": ""},
        "profile": profile,
        "gpu": {},
    }
    page = tables.fill(PAGE, records)
    assert "old" not in page
    assert "| RTE, 64 | 3 | 20.0, 60.0, 200.0 | 3.0 (3.0) | 10.0 (10.0) |" in page
    assert "| RTE | accuracy | 60.0 70.0 80.0 | 60.0 70.0 80.0 | 60.0 70.0 80.0 |" in page
    assert "**Preliminary.**" in page
    assert "| attention | 25% |" in page
    assert page.count("text\n") == len(tables.BLOCKS)
    assert tables.fill(page, records) == page


def test_performance_page_marks_missing_measurements():
    page = tables.fill(PAGE, dict.fromkeys(tables.RECORDS))
    assert page.count(tables.MISSING) == len(tables.BLOCKS)


def test_performance_page_without_a_placeholder_is_an_error():
    with pytest.raises(ValueError, match="speed"):
        tables.fill(PAGE.replace("<!-- speed -->", ""), dict.fromkeys(tables.RECORDS))


def test_performance_page_has_every_placeholder_and_no_machine_path():
    page = tables.PAGE.read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- end of (.*) -->", page)) == set(tables.BLOCKS)
    for path in tables.RESULTS.glob("*.json"):
        assert "/tmp" not in path.read_text(encoding="utf-8")


def test_scaling_figure_has_a_measured_and_a_proportional_line_per_parameter():
    figure = growth_figure(make_points())
    root = ET.fromstring(figure)
    lines = [element for element in root.iter() if element.tag.endswith("polyline")]
    assert len(lines) == 2 * len(SERIES), "a curve and its proportion each"
    assert "tokens of a row" in figure
    numbers = [float(n) for line in lines for n in re.findall(r"[\d.]+", line.get("points"))]
    assert 0 <= min(numbers) <= max(numbers) < 800


def test_scaling_curves_are_medians_of_the_repetitions_of_each_program():
    points = [{"series": "rows", "rows": 4, "side": "ours", "seconds": s} for s in (1.0, 9.0, 2.0)]
    assert curves(points, "rows") == {"ours": [(4, 2.0)]}


def test_each_scaling_series_varies_a_single_parameter():
    for name, points in SERIES.items():
        others = {n: {getattr(p, n) for p in points} for n in ("rows", "tokens", "layers", "seeds")}
        assert len(others.pop(name)) == len(points) > 1
        assert all(len(values) == 1 for values in others.values())
    assert Point(tokens=512).workload.values.max_tokens == 512


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (("aten::mm", "MmBackward0"), "matrix products"),
        (("aten::bmm", "_AttentionBackward"), "attention"),
        (("aten::_flash_attention_backward", "FlashAttentionBackward0"), "attention"),
        (("aten::_foreach_copy_", "_Cast"), "casts, copies"),
        (("aten::_foreach_norm",), "optimizer"),
        (("aten::mul", "dropout"), "dropout"),
        (("aten::_fused_adamw_", "Optimizer.step#AdamW.step"), "optimizer"),
        (("aten::tanh",), OTHER),
    ],
)
def test_profiled_operations_are_classified_by_kind(names, kind):
    assert kind_of(iter(names)) == kind


def test_kernel_launches_of_a_step_exclude_the_transfer_of_weights():
    names = ["cudaStreamSynchronize", "cudaLaunchKernel", FIRST, "cudaLaunchKernelExC"]
    names += ["cudaStreamSynchronize", "cudaMemcpyAsync", FIRST, "cudaGraphLaunch"]
    events = [
        SimpleNamespace(name=name, time_range=SimpleNamespace(start=place))
        for place, name in enumerate(names)
    ]
    assert (count_calls(events, LAUNCHES), count_calls(events, WAITS)) == (2, 1)
