"""The cluster engine with a cluster that loses, repeats, delays and reorders results."""

from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from benchharness.engines.process import Engine, Orders
from benchharness.extensions.clusters import cluster as cluster_module
from benchharness.extensions.clusters.cluster import (
    REFUSED,
    ClusterEngine,
    Lost,
    Needs,
    RemoteJob,
    run_remote,
    sparsely,
    version,
)
from benchharness.extensions.custom_data.task import OwnData
from benchharness.kept_folders import SnapshotFolder
from benchharness.leaderboard.job import Job
from benchharness.leaderboard.result import Failure, Result
from benchharness.progress import Progress
from benchharness.tasks.suites import TASKS
from tests.helpers.fake_worker import COMMAND, make_failure, make_job, make_result


class FakeCluster:
    """Cluster whose jobs end one call of news() later, as their recipe says.

    "ok" succeeds, "lost:N" is lost N times first, "twice" returns twice, "late" is lost but returns
    later, "slow:N" needs N more calls, "refused" cannot be started.
    """

    name = "a fake cluster"

    def __init__(self, room=2):
        self._room = room
        self.sent, self.cancelled = [], []
        self.is_open = False
        self.ghosts = []

    @contextmanager
    def open(self):
        self.is_open = True
        try:
            yield
        finally:
            self.is_open = False

    def room(self):
        return self._room

    def send(self, remote):
        job = Job.from_json(remote.job)
        self.sent.append(job.seed)
        return [remote, job, 0]

    def news(self, sent):
        assert self.is_open
        ghosts, self.ghosts = self.ghosts, []
        yield from ghosts
        for ticket, entry in reversed(sent.items()):
            entry[2] += 1
            yield ticket, Progress(phase="training", step=1, steps=3)
            yield from self._end(ticket, *entry)

    def _end(self, ticket, remote, job, turns):
        what, _, number = job.recipe.partition(":")
        done = (ticket, make_result(job).to_json())
        if what == "lost" and self.sent.count(job.seed) <= int(number):
            yield ticket, Lost(reason="its node died")
        elif what == "late" and self.sent.count(job.seed) == 1:
            self.ghosts.append(done)
            yield ticket, Lost(reason="its node was cut off")
        elif what == "refused":
            yield ticket, {"refused": "node7: there is no such folder."}
        elif what == "slow" and turns <= int(number):
            return
        else:
            yield done
            if what == "twice":
                yield done

    def cancel(self, sent):
        self.cancelled += [job.seed for _, job, _ in sent]


NEEDS = Needs(gpus=0, cpus=1)


@pytest.fixture(autouse=True)
def worker(monkeypatch):
    """Replace the worker process of the nodes by a fake one."""
    monkeypatch.setattr(cluster_module, "worker_command", lambda _: COMMAND)


def run(jobs, room=2, **options):
    cluster, seen = FakeCluster(room), []
    engine: Engine = ClusterEngine(cluster, NEEDS, Orders(**options))
    outcomes = list(engine.run(jobs, lambda job, progress: seen.append((job.seed, progress.phase))))
    assert not cluster.is_open
    return outcomes, cluster, seen


def jobs_of(*recipes):
    return [make_job(recipe, seed=seed) for seed, recipe in enumerate(recipes)]


def test_cluster_engine_yields_one_result_per_job_and_reports_progress():
    jobs = jobs_of("ok", "ok", "ok")
    outcomes, cluster, seen = run(jobs)
    assert sorted(outcome.job.seed for outcome in outcomes) == [0, 1, 2]
    assert all(isinstance(outcome, Result) for outcome in outcomes)
    assert outcomes[0].provenance["engine"] == {"name": "a fake cluster", "attempt": 1}
    assert cluster.sent == [0, 1, 2]
    assert [phase for seed, phase in seen if seed == 2] == ["waiting", "training"]


def test_lost_cluster_job_is_resent_and_its_attempts_are_recorded():
    notes: list[str] = []
    cluster = FakeCluster()
    engine = ClusterEngine(cluster, NEEDS, Orders())
    (outcome,) = engine.run(jobs_of("lost:2"), lambda _, progress: notes.append(progress.note))
    assert [note for note in notes if note] == ["was lost (its node died) and is sent again"] * 2
    assert outcome.provenance["engine"]["attempt"] == 3
    assert cluster.sent == [0, 0, 0]


def test_cluster_job_lost_three_times_fails_while_others_finish():
    outcomes, cluster, _ = run(jobs_of("lost:9", "ok"))
    failure, result = sorted(outcomes, key=lambda outcome: outcome.job.seed)
    assert isinstance(result, Result)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.exit_code) == ("killed", 1)
    assert "was lost 3 times on a fake cluster" in failure.error
    assert "its node died" in failure.error
    assert cluster.sent.count(0) == 3


def test_cluster_job_interrupted_by_its_node_is_resent():
    class Preempting(FakeCluster):
        def _end(self, ticket, remote, job, turns):
            if self.sent.count(job.seed) == 1:
                stopped = make_failure(job, "stopped by SIGTERM", 143, "interrupted")
                yield ticket, stopped.to_json()
            else:
                yield from super()._end(ticket, remote, job, turns)

    cluster = Preempting()
    (outcome,) = ClusterEngine(cluster, NEEDS, Orders()).run(jobs_of("ok"), lambda *_: None)
    assert isinstance(outcome, Result)
    assert cluster.sent == [0, 0]


@pytest.mark.parametrize("how", ["twice", "late"])
def test_repeated_or_late_cluster_results_are_used_once(how):
    outcomes, _, _ = run(jobs_of(how, "slow:3"))
    assert sorted(outcome.job.seed for outcome in outcomes) == [0, 1]


def test_job_refused_by_a_cluster_node_fails_with_the_message_of_the_node():
    (outcome,), cluster, _ = run(jobs_of("refused"))
    assert outcome.error == "node7: there is no such folder."
    assert cluster.sent == [0]


def test_jobs_are_taken_from_the_queue_only_if_a_node_is_free():
    taken, finished = [], []

    def queue():
        for job in jobs_of(*["ok"] * 5):
            taken.append(job.seed)
            yield job

    for outcome in ClusterEngine(FakeCluster(2), NEEDS, Orders()).run(queue(), lambda *_: None):
        finished.append(outcome.job.seed)
        assert len(taken) - len(finished) <= 2
    assert sorted(finished) == taken == [0, 1, 2, 3, 4]


def test_engine_waits_for_running_jobs_if_the_queue_yields_none():
    finished = []

    def queue():
        yield make_job("slow:2", seed=1)
        while not finished:
            yield None
        yield make_job("ok", seed=2)

    outcomes = ClusterEngine(FakeCluster(2), NEEDS, Orders()).run(queue(), lambda *_: None)
    finished.extend(outcome.job.seed for outcome in outcomes)
    assert finished == [1, 2]


def test_closing_the_cluster_engine_cancels_running_jobs():
    cluster = FakeCluster(3)
    outcomes = ClusterEngine(cluster, NEEDS, Orders()).run(
        jobs_of("ok", "slow:99", "slow:99"), lambda *_: None
    )
    with closing(outcomes):
        assert next(outcomes).job.seed == 0
    assert sorted(cluster.cancelled) == [1, 2]
    assert not cluster.is_open


def test_exception_in_the_progress_callback_cancels_running_cluster_jobs():
    def report(job, progress):
        if progress.phase == "training":
            raise BrokenPipeError

    cluster = FakeCluster(2)
    with pytest.raises(BrokenPipeError):
        list(ClusterEngine(cluster, NEEDS, Orders()).run(jobs_of("ok", "ok"), report))
    assert len(cluster.cancelled) == 2


def test_memory_request_is_estimated_from_the_job_unless_the_user_sets_it():
    small = make_job()
    floor = replace(small, kind="baseline", weights="baseline:majority:1")
    usual = Needs(gpus=2, cpus=4)
    needs = usual.of(small)
    assert (needs.gpus, needs.cpus) == (2, 4)
    assert 2e9 < needs.memory_bytes < 4e9
    assert Needs(gpus=0, cpus=1, memory_bytes=int(7e9)).of(small).memory_bytes == 7e9
    assert usual.of(floor) == Needs(gpus=0, cpus=1, memory_bytes=int(2e9))


def remote(job, **fields):
    needs = Needs(gpus=0, cpus=3, memory_bytes=0)
    standard = {
        "ticket": "1",
        "job": job.to_json(),
        "needs": needs,
        "folder": "/no/such/folder",
        "variables": {"BENCH_PLUGINS": "a.py"},
        "orders": Orders(),
        "mark": Path("/no/such/folder/mark"),
        "version": version(),
    }
    return RemoteJob(**{**standard, **fields})


def test_node_sets_the_environment_of_its_worker(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    job, phases = make_job("ok"), []
    left = run_remote(remote(job), lambda progress: phases.append(progress.phase))
    result = Result.from_json(left)
    assert result == make_result(job, result.provenance)
    environment = result.provenance["environment"]
    assert environment["OMP_NUM_THREADS"] == "3"
    assert environment["CUDA_VISIBLE_DEVICES"] == ""
    assert environment["BENCH_PLUGINS"] == "a.py"
    assert phases == ["loading", "training"]


def test_node_passes_its_visible_gpus_to_the_worker(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5")
    needs = Needs(gpus=1, cpus=1, memory_bytes=0)
    left = run_remote(remote(make_job("ok"), needs=needs), lambda _: None)
    assert Result.from_json(left).provenance["environment"]["CUDA_VISIBLE_DEVICES"] == "5"


def test_node_without_cuda_visible_devices_lists_its_gpus_or_refuses_the_job(
    monkeypatch, nvidia_smi
):
    """Slurm's cgroups limit the GPUs of a job without setting CUDA_VISIBLE_DEVICES."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    asked = remote(make_job("ok"), needs=Needs(gpus=1, cpus=1, memory_bytes=0))
    for listed, expected in (("GPU 0: NVIDIA H200 (UUID: GPU-11)", "0"), ("", None)):
        nvidia_smi(f"echo '{listed}'")
        left = run_remote(asked, lambda _: None)
        if expected is None:
            assert "no GPU was found on this node" in left[REFUSED]
        else:
            told = Result.from_json(left).provenance["environment"]
            assert told["CUDA_VISIBLE_DEVICES"] == expected


def test_node_registers_the_custom_task_of_a_job():
    columns = {"text": ("text",), "label": ("label",)}
    own = OwnData(title="t", kind="class", columns=columns, labels=("a", "b"), metrics=("f1",))
    job = replace(make_job("ok", task=own.name), definition=own.to_json())
    assert own.name not in TASKS
    assert Result.from_json(run_remote(remote(job), lambda _: None)).job == job
    assert TASKS[own.name].definition == own.to_json()


def test_node_refuses_a_job_from_another_version_of_benchharness():
    left = run_remote(remote(make_job("ok"), version="0.0.1, method 1"), lambda _: None)
    assert "install the same version on every node" in left["refused"]


def test_trained_encoders_are_passed_between_jobs_through_a_shared_folder(tmp_path):
    first = make_job("ok")
    second = replace(make_job("ok", task="glue/rte"), start_from=first.key)

    class Here(FakeCluster):
        def _end(self, ticket, remote, job, turns):
            yield ticket, run_remote(remote, lambda _: None)

    def queue():
        yield first
        while len(outcomes) < 1:
            yield None
        yield second

    outcomes = []
    orders = Orders(checkpoints=tmp_path / "shared", keep=[first.key])
    engine = ClusterEngine(Here(), NEEDS, orders)
    outcomes.extend(engine.run(queue(), lambda *_: None))
    assert all(isinstance(outcome, Result) for outcome in outcomes), outcomes
    assert [path.name for path in (tmp_path / "shared").iterdir()] == [first.key]


def test_job_that_saves_its_model_fails_on_a_node_without_the_shared_folder(tmp_path):
    class Elsewhere(FakeCluster):
        def _end(self, ticket, remote, job, turns):
            remote.mark.unlink()
            yield ticket, run_remote(remote, lambda _: None)

    job = make_job("ok")
    orders = Orders(checkpoints=tmp_path, keep=[job.key])
    engine = ClusterEngine(Elsewhere(), NEEDS, orders)
    (outcome,) = engine.run([job], lambda *_: None)
    assert f"{tmp_path} is not shared" in outcome.error


@pytest.mark.parametrize("is_seen", [True, False])
def test_node_saves_snapshots_only_in_a_folder_shared_with_the_driver(tmp_path, is_seen):
    class Node(FakeCluster):
        def _end(self, ticket, remote, job, turns):
            if not is_seen:
                remote.mark.unlink()
            yield ticket, run_remote(remote, lambda _: None)

    snapshots = SnapshotFolder(root=tmp_path / "snapshots", every=60.0)
    orders = Orders(checkpoints=tmp_path / "checkpoints", snapshots=snapshots)
    engine = ClusterEngine(Node(), NEEDS, orders)
    job = make_job("ok")
    (outcome,) = engine.run([job], lambda *_: None)
    expected = ["--snapshots", str(tmp_path / "snapshots" / job.key), "--checkpoint-every", "60.0"]
    assert outcome.provenance["options"] == (expected if is_seen else [])
    assert list(tmp_path.iterdir()) == [], "the folder with the driver's mark is gone again"


def test_cluster_progress_reports_are_throttled_except_at_new_phases():
    told = []
    report = sparsely(60.0, told.append)
    for phase in ("loading", "training", "training", "predicting"):
        report(Progress(phase=phase))
    assert [progress.phase for progress in told] == ["loading", "training", "predicting"]
