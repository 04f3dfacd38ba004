import pytest

from benchharness.engines import slots
from benchharness.engines.slots import Slot, find_gpus, find_slots, have_bf16, place_of
from benchharness.errors import BenchError

LISTING = "[ $1 = -L ] && cat <<END\n%sEND\n"
TWO_GPUS = LISTING % "GPU 0: NVIDIA H200 (UUID: GPU-11)\nGPU 1: NVIDIA H200 (UUID: GPU-22)\n"
ONE_SPLIT = (
    LISTING
    % """GPU 0: NVIDIA A100 (UUID: GPU-11)
  MIG 3g.20gb     Device  0: (UUID: MIG-aa)
  MIG 3g.20gb     Device  1: (UUID: MIG-bb)
GPU 1: NVIDIA A100 (UUID: GPU-22)
"""
)


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Set eight cores and no relevant environment variables."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(slots, "_count_cores", lambda: 8)


def shape(found):
    keys = ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS")
    return [(slot.device, *(slot.environment[key] for key in keys)) for slot in found]


def test_cpu_is_one_slot_with_all_cores_by_default(nvidia_smi):
    nvidia_smi(TWO_GPUS)
    assert shape(find_slots("cpu")) == [("cpu", "", "8")]


def test_cpu_slots_share_the_cores(nvidia_smi):
    assert shape(find_slots("cpu", 3)) == [("cpu", "", "2")] * 3
    assert shape(find_slots("cpu", 20)) == [("cpu", "", "1")] * 20


def test_cpu_slots_are_limited_by_memory_and_have_at_most_8_cores_each(monkeypatch, nvidia_smi):
    nvidia_smi(TWO_GPUS)
    assert shape(find_slots("cpu", fit=3)) == [("cpu", "", "2")] * 3
    assert shape(find_slots("cpu", fit=50)) == [("cpu", "", "1")] * 8
    assert shape(find_slots("cpu", fit=50, processes=4)) == [("cpu", "", "1")] * 2
    assert len(find_slots("cpu", 3, fit=50)) == 3
    monkeypatch.setattr(slots, "_count_cores", lambda: 64)
    assert shape(find_slots("cpu", fit=50)) == [("cpu", "", "8")] * 8
    monkeypatch.setattr(slots, "_count_cores", lambda: 2)
    assert shape(find_slots("cpu", fit=50)) == [("cpu", "", "1")] * 2


def test_slots_keep_the_users_omp_num_threads(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert shape(find_slots("cpu", 2)) == [("cpu", "", "5")] * 2


def test_small_job_on_a_cpu_has_one_thread(nvidia_smi):
    assert shape(find_slots("cpu", small=True)) == [("cpu", "", "1")]
    assert shape(find_slots("cpu", 2, small=True)) == [("cpu", "", "1")] * 2
    nvidia_smi(TWO_GPUS)
    assert shape(find_slots("cuda", small=True)) == [("cuda:0", "0", "4"), ("cuda:1", "1", "4")]


def test_gomp_spincount_is_set_unless_the_user_sets_omp_wait_policy(monkeypatch):
    for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT"):
        monkeypatch.delenv(name, raising=False)
    (slot,) = find_slots("cpu")
    assert slot.environment["GOMP_SPINCOUNT"] == "500"
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    (slot,) = find_slots("cpu")
    assert slot.environment["OMP_WAIT_POLICY"] == "active"
    assert "GOMP_SPINCOUNT" not in slot.environment


def test_every_gpu_is_one_slot_by_default(nvidia_smi):
    nvidia_smi(TWO_GPUS)
    expected = [("cuda:0", "0", "4"), ("cuda:1", "1", "4")]
    assert shape(find_slots()) == shape(find_slots("cuda")) == expected
    assert all(slot.environment["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID" for slot in find_slots())


def test_more_jobs_than_gpus_share_them_round_robin(nvidia_smi):
    nvidia_smi(TWO_GPUS)
    assert [slot.device for slot in find_slots("cuda", 3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert [slot.device for slot in find_slots("cuda", 1)] == ["cuda:0"]


def test_jobs_that_fit_in_memory_share_gpus_up_to_the_number_of_cores(monkeypatch, nvidia_smi):
    nvidia_smi(TWO_GPUS)
    found = find_slots("cuda", fit=5)
    assert [slot.device for slot in found] == ["cuda:0", "cuda:1", "cuda:0", "cuda:1", "cuda:0"]
    assert all(slot.is_shared for slot in found)
    assert len(find_slots("cuda", fit=50)) == 8, "no more than there are cores"
    assert not any(slot.is_shared for slot in find_slots("cuda", fit=2))
    assert not any(slot.is_shared for slot in find_slots("cuda", 4, fit=50)), "the user says so"
    assert len(find_slots("cuda", fit=50, processes=2)) == 1
    monkeypatch.setattr(slots, "_count_cores", lambda: 64)
    assert len(find_slots("cuda", fit=50)) == 16


def test_device_option_selects_a_gpu_by_its_number(nvidia_smi):
    nvidia_smi(TWO_GPUS)
    assert shape(find_slots("cuda:1")) == [("cuda:1", "1", "8")]


def test_mig_instances_are_used_instead_of_their_gpu(nvidia_smi):
    nvidia_smi(ONE_SPLIT)
    assert find_gpus() == ("MIG-aa", "MIG-bb", "1")
    assert [slot.device for slot in find_slots(fit=50)] == ["cuda:MIG-aa", "cuda:MIG-bb", "cuda:1"]


def test_cuda_visible_devices_may_contain_gpu_uuids(monkeypatch, nvidia_smi):
    nvidia_smi(TWO_GPUS)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-22")
    assert shape(find_slots(fit=1)) == [("cuda:GPU-22", "GPU-22", "8")]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-GPU-11/1/0,MIG-bb")
    assert [slot.device for slot in find_slots(fit=9)] == ["cuda:MIG-GPU-11/1/0", "cuda:MIG-bb"]


def test_cuda_visible_devices_has_precedence_over_nvidia_smi(monkeypatch, nvidia_smi):
    nvidia_smi(TWO_GPUS)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5")
    assert find_gpus() == ("3", "5")
    assert find_slots("cuda:1")[0].device == "cuda:5"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,-1,5")
    assert find_gpus() == ("3",), "as CUDA reads it"
    for nothing in ("", "-1"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", nothing)
        assert find_gpus() == ()
        assert shape(find_slots(processes=4)) == [("cpu", "", "2")]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("8.0", True),
        ("12.0", True),
        ("7.5", False),
        ("9.0\n7.0", False),
        ("[N/A]", True),
        ("", True),
    ],
)
def test_slots_on_gpus_before_ampere_do_not_use_bf16(nvidia_smi, answer, expected):
    """A T4 emulates bf16 more slowly than it computes fp32, so "auto" selects fp32 there."""
    nvidia_smi(f'[ "$1" = --id=0,GPU-22 ] || exit 9\necho "{answer}"')
    places = [Slot(device=f"cuda:{name}", environment={}) for name in ("0", "GPU-22", "0")]
    assert have_bf16(places) is expected
    assert have_bf16([Slot(device="cuda", environment={})]), "a cluster's are not known here"


def test_no_gpu_is_found_if_the_driver_is_missing_or_broken(monkeypatch, nvidia_smi):
    nvidia_smi("echo NVIDIA-SMI has failed; exit 9")
    assert find_gpus() == ()
    monkeypatch.setenv("PATH", "")
    assert find_gpus() == ()


def test_gpus_are_counted_by_device_files_if_nvidia_smi_is_missing(monkeypatch, tmp_path):
    """CUDA numbers them from 0, whatever their numbers are outside the container."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(slots, "DEVICES", tmp_path)
    for name in ("nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm", "null"):
        (tmp_path / name).touch()
    assert find_gpus() == ("0", "1")


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        (("cpu", "cpu"), "the CPU"),
        (("cuda:1", "cuda:1"), "GPU 1"),
        (("cuda:0", "cuda:1", "cuda:0"), "2 GPUs"),
        (("cuda:0,1", "cuda:2,3"), "4 GPUs"),
        (("cuda:MIG-aa",), "GPU MIG-aa"),
        (("cuda",), "GPUs"),
    ],
)
def test_devices_of_the_slots_are_described_in_words(devices, expected):
    assert place_of([Slot(device=device, environment={}) for device in devices]) == expected


@pytest.mark.parametrize(
    ("device", "sentence"),
    [
        ("gpu", "no device is called 'gpu': use auto, cpu, cuda or cuda:N"),
        ("cpu:1", "no device is called"),
        ("cuda:x", "no device is called"),
        ("cuda:²", "no device is called"),
        ("cuda:", "no device is called"),
        ("cuda:2", "there is no cuda:2: the visible GPUs are cuda:0 to cuda:1"),
    ],
)
def test_an_invalid_device_is_an_error(nvidia_smi, device, sentence):
    nvidia_smi(TWO_GPUS)
    with pytest.raises(BenchError, match=sentence):
        find_slots(device)


def test_device_cuda_without_a_gpu_is_an_error(nvidia_smi):
    nvidia_smi("[ $1 = -L ]")
    with pytest.raises(BenchError, match=r"needs a GPU.* use --device cpu"):
        find_slots("cuda")
