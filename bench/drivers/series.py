"""Samples of several processes as one series."""

from collections.abc import Callable

from bench.drivers.base import SAMPLE_S, Sample, merge_samples


class Series:
    """The merged samples; one is complete when every process that still runs has reached its time."""

    def __init__(self, processes: int, on_sample: Callable[[Sample], None] | None) -> None:
        self._slots: dict[int, float] = dict.fromkeys(range(processes), -1.0)  # that each process has reached
        self._on_sample = on_sample
        self._waiting: list[Sample] = []
        self._reported: list[Sample] = []

    def add(self, process: int, sample: Sample) -> None:
        """Add a sample of `process` (0, 1, ...), and report the samples that it completes."""
        self._waiting.append(sample)
        self._slots[process] = round(sample.t_s / SAMPLE_S)
        self._tell()

    def end(self, process: int) -> None:
        """Note that `process` sends no more samples."""
        self._slots[process] = float("inf")
        self._tell()

    def samples(self) -> list[Sample]:
        """Return all complete samples."""
        return merge_samples([], self._reported)

    def _tell(self) -> None:
        until = min(self._slots.values())
        whole = merge_samples([], [s for s in self._waiting if round(s.t_s / SAMPLE_S) <= until])
        self._waiting = [s for s in self._waiting if round(s.t_s / SAMPLE_S) > until]
        self._reported += whole
        if self._on_sample is not None:
            for sample in whole:
                self._on_sample(sample)
