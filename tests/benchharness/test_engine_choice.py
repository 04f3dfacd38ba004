"""Tests of the engine, slots and resources that `--engine` selects, with fake clusters."""

import types
from importlib.util import find_spec

import pytest

from benchharness.engines.local import EngineChoice, LocalEngine, find_placement
from benchharness.engines.slots import find_slots
from benchharness.errors import BenchError
from benchharness.extensions.clusters import ray as ray_engine
from benchharness.extensions.clusters.cluster import ClusterEngine, Needs
from benchharness.extensions.clusters.ray import NodeSize, jobs_at_once

GB = 10**9
CPU_NODES = [NodeSize(0, 8, 64 * GB), NodeSize(0, 4, 32 * GB)]
GPU_NODES = [NodeSize(4, 32, 256 * GB), NodeSize(0, 8, 64 * GB)]


def choose(name, *words, **fields):
    return find_placement(EngineChoice(name=name, words=words, **fields))


@pytest.fixture
def cluster(monkeypatch):
    """Return a function that makes `--engine ray` find given nodes."""

    def make(sizes):
        monkeypatch.setattr(ray_engine, "connect", lambda address: None)
        monkeypatch.setattr(ray_engine, "node_sizes", lambda: sizes)
        monkeypatch.setattr(ray_engine, "ray", types.SimpleNamespace())

    return make


def resources(place):
    return place.engine.args[1]


def test_local_engine_has_one_slot_for_each_of_the_jobs_requested_at_once(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    place = choose("local", jobs=3)
    assert len(place.slots) == 3
    assert place.engine.func is LocalEngine
    assert "command" not in place.engine.keywords


def test_option_processes_per_job_gives_each_job_several_gpus_and_the_rank_launcher(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("benchharness.engines.slots._count_cores", lambda: 16)
    place = choose("local", processes=2)
    assert [slot.environment["CUDA_VISIBLE_DEVICES"] for slot in place.slots] == ["0,1", "2,3"]
    assert place.slots[0].environment["OMP_NUM_THREADS"] == "4"
    assert place.engine.keywords["command"][-2:] == ("benchharness.worker.ranks", "2")
    with pytest.raises(BenchError, match="needs as many GPUs, but only 5 can"):
        find_slots("cuda", processes=6)


@pytest.mark.parametrize(
    ("sizes", "fields", "expected"),
    [
        (CPU_NODES, {}, (0, 4, 3)),
        (CPU_NODES, {"small": True}, (0, 1, 12)),
        (CPU_NODES, {"words": ("cpus=8",)}, (0, 8, 1)),
        (GPU_NODES, {}, (1, 8, 4)),
        (GPU_NODES, {"processes": 2}, (2, 16, 2)),
        (GPU_NODES, {"device": "cpu"}, (0, 8, 5)),
        (GPU_NODES, {"jobs": 9}, (1, 8, 9)),
    ],
)
def test_ray_engine_runs_as_many_jobs_as_the_cluster_has_room_for(cluster, sizes, fields, expected):
    cluster(sizes)
    place = find_placement(EngineChoice(name="ray", **fields))
    assert place.engine.func is ClusterEngine
    assert (resources(place).gpus, resources(place).cpus, len(place.slots)) == expected
    assert place.slots[0].is_gpu == (expected[0] > 0)


def test_cluster_too_small_for_any_job_is_an_error(cluster):
    cluster(CPU_NODES)
    with pytest.raises(
        BenchError, match=r"needs 1 GPUs? and 8 cores, but no node of the Ray cluster"
    ):
        choose("ray", "cpus=8", device="cuda")


def test_number_of_concurrent_cluster_jobs_is_computed_from_cores_and_gpus():
    assert jobs_at_once(CPU_NODES, 0, 3) == 3
    assert jobs_at_once(GPU_NODES, 1, 10) == 3
    assert jobs_at_once([], 0, 1) == 0


@pytest.mark.parametrize(
    ("name", "fields", "sentence"),
    [
        ("rai", {}, "no engine is called 'rai'"),
        ("local", {"address": "auto"}, "can only be used with --engine ray or slurm"),
        ("local", {"words": ("cpus=1",)}, "can only be used with --engine ray or slurm"),
        ("ray", {"words": ("cpu=1",)}, "no option of --engine ray is called 'cpu'"),
        ("ray", {"words": ("cpus=none",)}, "cpus=none is invalid: expected a whole number"),
        ("ray", {"words": ("cpus",)}, "'cpus' does not have the form NAME=VALUE"),
        ("ray", {"words": ("cpus=1", "cpus=2")}, "repeats a name"),
        ("ray", {"device": "cuda:1"}, "is a device of this machine"),
        ("slurm", {"address": "host:1"}, "is not possible with --engine slurm"),
    ],
)
def test_an_invalid_engine_option_is_an_error_that_names_it(cluster, name, fields, sentence):
    cluster(CPU_NODES)
    with pytest.raises(BenchError, match=sentence):
        find_placement(EngineChoice(name=name, **fields))


def test_unreachable_ray_address_is_an_error_before_jobs_start(monkeypatch):
    monkeypatch.setattr(ray_engine, "ray", types.SimpleNamespace())
    with pytest.raises(BenchError, match=r"no Ray cluster answers at 127\.0\.0\.1:1 "):
        choose("ray", address="127.0.0.1:1")
    with pytest.raises(BenchError, match="Ray client"):
        choose("ray", address="ray://head:10001")


@pytest.mark.parametrize(("name", "module"), [("ray", "ray"), ("slurm", "submitit")])
def test_missing_package_of_an_engine_is_an_error_with_the_install_command(
    monkeypatch, name, module
):
    monkeypatch.setattr(f"benchharness.extensions.clusters.{name}.{module}", None)
    with pytest.raises(BenchError, match=rf"pip install 'benchharness\[{name}\]'"):
        choose(name)


@pytest.mark.skipif(not find_spec("submitit"), reason="submitit is not installed")
def test_sbatch_options_are_passed_to_slurm(monkeypatch, tmp_path):
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    words = ("partition=gpu", "minutes=30", "memory=40", "retries=0")
    place = choose("slurm", *words, folder=tmp_path, processes=4)
    cluster = place.engine.args[0]
    assert (cluster.minutes, cluster.options) == (30, {"partition": "gpu"})
    needs = Needs(gpus=4, cpus=8, memory_bytes=40 * 10**9, processes=4)
    assert (resources(place), place.engine.keywords) == (needs, {"at_once": None, "retries": 0})
    assert len(place.slots) == 64


@pytest.mark.skipif(not find_spec("submitit"), reason="submitit is not installed")
def test_slurm_engine_on_a_machine_without_sbatch_is_an_error(monkeypatch, tmp_path):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(BenchError, match="needs `sbatch`"):
        choose("slurm", folder=tmp_path)
