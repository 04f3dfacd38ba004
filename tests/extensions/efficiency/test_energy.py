"""Tests of the energy counters of processors and GPUs."""

from pathlib import Path

import pytest
import torch

from benchharness.extensions.efficiency.energy import (
    EnergyCounter,
    EnergyMeter,
    gpu_counter,
    processor_counters,
)


def write_domain(folder: Path, name: str, microjoules: int, limit: int = 1_000_000) -> Path:
    """Write a RAPL domain with the files of Linux's powercap interface; return its counter."""
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{name}\n")
    (folder / "max_energy_range_uj").write_text(f"{limit}\n")
    (folder / "energy_uj").write_text(f"{microjoules}\n")
    return folder / "energy_uj"


def test_energy_is_the_sum_over_packages_and_memory(tmp_path: Path) -> None:
    files = [
        write_domain(tmp_path / "intel-rapl:0", "package-0", 100_000),
        write_domain(tmp_path / "intel-rapl:0:0", "core", 70_000),  # part of the package
        write_domain(tmp_path / "intel-rapl:0:1", "dram", 10_000),
        write_domain(tmp_path / "intel-rapl:1", "package-1", 200_000),
        write_domain(tmp_path / "intel-rapl:2", "psys", 900_000),  # includes the packages
    ]
    (tmp_path / "intel-rapl").mkdir()
    meter = EnergyMeter(counters=processor_counters(tmp_path))
    assert [counter.name for counter in meter.counters] == ["package-0", "dram", "package-1"]
    assert meter.joules() == 0
    for file, more in zip(files, (5_000, 10**5, 600, 70, 10**5), strict=True):
        file.write_text(f"{int(file.read_text()) + more}\n")
    assert meter.joules() == pytest.approx(0.005670)


def test_counter_that_starts_again_from_zero_keeps_the_sum(tmp_path: Path) -> None:
    file = write_domain(tmp_path / "intel-rapl:0", "package-0", 900_000)
    meter = EnergyMeter(counters=processor_counters(tmp_path))
    total = [meter.joules()]
    for value in (999_000, 1_000, 300_000, 200_000):
        file.write_text(f"{value}\n")
        total.append(meter.joules())
    assert total == pytest.approx([0, 0.099, 0.101, 0.4, 1.3])


def test_domain_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    write_domain(tmp_path / "intel-rapl:0", "package-0", 0).write_text("")
    write_domain(tmp_path / "intel-rapl:1", "package-1", 0).unlink()
    (write_domain(tmp_path / "intel-rapl:2", "package-2", 0).parent / "name").unlink()
    assert processor_counters(tmp_path) == []
    assert processor_counters(tmp_path / "none") == []


def test_meter_without_counters_measures_nothing() -> None:
    meter = EnergyMeter(counters=())
    assert (meter.joules(), meter.joules()) == (0, 0)


def test_counter_that_stops_working_is_an_error(tmp_path: Path) -> None:
    def gone() -> float:
        return float((tmp_path / "gone").read_text())

    with pytest.raises(OSError, match="gone"):
        EnergyMeter(counters=[EnergyCounter(name="gone", read=gone)]).joules()


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_machine_without_a_gpu_has_no_counter_of_a_gpu() -> None:
    assert gpu_counter(torch.device("cuda")) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_energy_of_a_gpu_grows_while_it_computes() -> None:
    counter = gpu_counter(torch.device("cuda"))
    if counter is None:
        pytest.skip("needs nvidia-ml-py and a GPU with an energy counter")
    before, large = counter.read(), torch.ones(4096, 4096, device="cuda")
    for _ in range(200):
        large = torch.tanh(large @ large)
    torch.cuda.synchronize()
    assert counter.read() > before
