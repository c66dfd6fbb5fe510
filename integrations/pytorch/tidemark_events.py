"""Lets a PyTorch script report to Tidemark: steps, loss, memory peaks, snapshots.

    import tidemark_events as tidemark

    tidemark.start()                      # optional: before the model is loaded
    for step in tidemark.steps():         # warm-up and counted steps, ends by itself
        loss = train_step()
        tidemark.step(loss=loss, tokens=4096, samples=8)

Run it with `tidemark run exec -s 'command=[python3, train.py]'`. Started any other way the script behaves
as if nothing of this were there: no output, no synchronisation. Copy the file beside your script; it imports
nothing but the standard library. What it costs under Tidemark, and the rest, is in docs/pytorch.md.
"""
from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import pathlib
import sys
import time
import traceback
from typing import Any, Iterable, Iterator, Optional, Union

__all__ = ["finish", "finished", "note", "report", "run", "snapshot", "start", "step", "steps"]

HISTORY_ENTRIES = 200_000   # allocator events that a snapshot holds; the oldest go first
STEPS_ALONE = 25            # of steps() without an argument and without Tidemark
TEXT_MAX = 600              # keeps a line below PIPE_BUF, so that ranks do not cut each other's
KINDS = ("requested", "allocated", "active", "reserved")


def _program() -> int:
    """The process that Tidemark started: the highest ancestor that was told of this event stream."""
    names, pid = (b"TIDEMARK_EVENTS_FD", b"TIDEMARK_RUN"), os.getpid()
    with contextlib.suppress(OSError):
        while True:
            with open(f"/proc/{pid}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
            with open(f"/proc/{parent}/environ", "rb") as file:
                theirs = dict(entry.partition(b"=")[::2] for entry in file.read().split(b"\0"))
            if any(theirs.get(name) != os.environb.get(name) for name in names):
                break
            pid = parent
    return pid


def _open_stream() -> int:
    """A descriptor of our own to write events to. -1: there is none; said on stderr where one was promised."""
    number = os.environ.get("TIDEMARK_EVENTS_FD")
    if not number:
        return -1
    try:
        program = _program()
        if program == os.getpid():
            fd = os.dup(int(number))
        else:           # torchrun and others close it on the way to their workers
            path = f"/proc/{program}/fd/{number}"
            if not pathlib.Path(path).is_fifo():
                raise OSError(f"{path} is no pipe")
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)     # its reader may be gone: must not wait for one
            os.set_blocking(fd, True)
        return fd
    except (OSError, ValueError) as error:
        print(f"tidemark_events: TIDEMARK_EVENTS_FD={number}: {error}; nothing is reported", file=sys.stderr)
        return -1


def _endless(batches: Iterable[Any]) -> Iterator[Any]:
    n = 1
    while n:
        n = 0
        for n, item in enumerate(batches, 1):
            yield item
    raise RuntimeError("tidemark_events: the batches given to steps() ended and cannot be begun anew")


class _Run:
    """The run that this process is, or is a rank of; its public methods are the functions of this module."""

    def __init__(self) -> None:
        self.fd, self.pid = _open_stream(), os.getpid()
        self.live = self.fd >= 0                      # false also once the end was told
        self.rank, self.ranks, self.warmup, self.count, self.cap = (
            int(os.environ.get(name, default)) if self.live else default for name, default in (
                ("RANK", 0), ("WORLD_SIZE", 1), ("TIDEMARK_WARMUP", 5), ("TIDEMARK_STEPS", 20), ("TIDEMARK_CAP", 0)))
        self.name = os.environ.get("TIDEMARK_SNAPSHOT") or "tidemark-" + os.environ.get("TIDEMARK_RUN", "run")
        self.torch, self.device, self.capped = None, None, None     # as the script uses them
        self.started = self.watched = self.begun = self.open = False
        self.index, self.window, self.began_ns, self.measuring_ns = 0, "load", time.monotonic_ns(), 0
        self.scaler, self.scale = None, 0.0           # the scale in effect in the current step; 0: none
        self.peaks: dict[str, dict[str, int]] = {}    # by window and "run"
        self.calls: dict[str, float] = {}             # counters where counting began; then the means a step
        self.ooms: list[dict[str, int]] = []          # as the allocator told of them

    def _send(self, event: str, **members: Any) -> None:
        if not self.live or os.getpid() != self.pid or self.rank and event in ("phase", "steps", "result"):
            return                                    # also where a forked data loader asks: it is not the run
        if self.ranks > 1:
            members["rank"] = self.rank
        line = json.dumps({"e": event, **members}, ensure_ascii=False, allow_nan=False)
        try:
            os.write(self.fd, line.encode("utf-8", "replace") + b"\n")
        except OSError:                               # nobody reads any more
            self.live = False

    def note(self, text: str, level: str = "info") -> None:
        """A sentence that is shown with the run; `level`: info or warning."""
        self._send("note", text=(f"rank {self.rank}: " * (self.ranks > 1) + text)[:TEXT_MAX], level=level)

    def _find_card(self) -> None:
        """The device the script uses by now: caps it and begins to record, once each."""
        self.torch = torch = sys.modules.get("torch")
        if not self.live or torch is None or not torch.cuda.is_initialized():
            return
        self.device = torch.cuda.current_device()
        if self.cap and self.capped != self.device:
            self.capped, total = self.device, torch.cuda.get_device_properties(self.device).total_memory
            # the allocator rounds the product down to whole bytes
            torch.cuda.set_per_process_memory_fraction(min(1.0, (self.cap + 0.5) / total), self.device)
            self.note(f"cuda:{self.device}: at most {min(self.cap, total)} of {total} bytes for this process")
        if self.watched:
            return
        self.watched, stacks = True, "alloc" if os.environ.get("TIDEMARK_STACKS", "0") != "0" else None
        try:                                          # private names: another version may lack them
            torch._C._cuda_attach_out_of_memory_observer(self._saw_oom)
            if self.name != "off":
                torch.cuda.memory._record_memory_history("all", stacks, "python", HISTORY_ENTRIES)
        except Exception as error:
            self.note(f"no allocator history and no snapshot where memory runs out: {error}", "warning")

    def _saw_oom(self, _device: int, asked: int, _limit: int, free: int) -> None:
        """Called by the allocator where it gives up, everything still in its place."""
        with contextlib.suppress(Exception):          # else it would replace the error that it is about
            now = self._look()
            self.ooms.append({"asked": asked, "free": free, "allocated": now["allocated"], "reserved": now["reserved"]})
            if self.name != "off":
                self.snapshot(self.name + "-oom")     # the last one stays

    def snapshot(self, name: Optional[str] = None) -> Optional[str]:
        """Writes the allocator's state and history to NAME.pickle, one of several ranks to NAME.rank3.pickle, and
        notes the path. Returns it; None where nothing was written."""
        self._find_card()
        if not self.live or self.device is None:
            self.note("no snapshot: no CUDA memory is in use")
            return None
        name, rank = name or self.name, f".rank{self.rank}" if self.ranks > 1 else ""
        path = os.path.abspath(name[:-7] if name.endswith(".pickle") else name) + rank + ".pickle"
        try:                                          # a killed run leaves no half of a file under that name
            self.torch.cuda.memory._dump_snapshot(path + ".part")
            os.replace(path + ".part", path)
        except Exception as error:
            self.note(f"no snapshot: {error}", "warning")
            with contextlib.suppress(OSError):
                os.unlink(path + ".part")
            return None
        self.note(f"snapshot of cuda:{self.device} in step {self.index}: {path}")
        return path

    def _stats(self) -> dict[str, Any]:
        with contextlib.suppress(Exception):          # an allocator of the script's own may have no counters
            return self.torch.cuda.memory_stats_as_nested_dict(self.device) if self.device is not None else {}
        return {}

    def _look(self) -> dict[str, int]:
        """The bytes of this moment, zeros without a card; takes the peaks on the way."""
        stats, now, peak = self._stats(), {}, {}
        for kind in KINDS:
            entry = stats.get(kind + "_bytes", {}).get("all", {})
            now[kind], peak[kind] = entry.get("current", 0), entry.get("peak", 0)
        for window in ("run", self.window) if peak["reserved"] else ():
            mark = self.peaks.setdefault(window, dict.fromkeys(KINDS, 0))
            mark.update((kind, max(mark[kind], peak[kind])) for kind in KINDS)
        return now

    def _counters(self) -> dict[str, float]:
        stats = self._stats()
        if not stats.get("num_device_alloc"):         # before PyTorch 2.1, and cudaMallocAsync
            return {}
        return {"alloc.count": stats["allocation"]["all"]["allocated"], "alloc.retries": stats["num_alloc_retries"],
                "alloc.driver_calls": stats["num_device_alloc"] + stats["num_device_free"]}

    def start(self, card: bool = True) -> None:
        """Begins to watch: cap, allocator history, out-of-memory. Optional; before the model is loaded and after
        torch.cuda.set_device(). Initialises CUDA where there is a card, unless `card` is false."""
        torch = sys.modules.get("torch")
        if self.live and card and torch is not None and torch.cuda.is_available():
            torch.cuda.init()
        if self.live and not self.started:
            self.started, self.hook, sys.excepthook = True, sys.excepthook, self._uncaught
            atexit.register(self.finish)
            self._send("phase", name="load", at="begin")
        self._find_card()

    def _uncaught(self, kind: Any, error: BaseException, trace: Any) -> None:
        try:
            self.report(error)
        finally:
            self.hook(kind, error, trace)

    def _begin(self, scaler: Any = None) -> None:
        self.start(card=False)                        # a script that uses no card is not given one here
        dist = getattr(self.torch, "distributed", None)
        if dist is not None and dist.is_available() and dist.is_initialized():
            self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        if self.cap and self.device is None:
            self.note(f"the cap of {self.cap} bytes is not applied: no CUDA device is in use", "warning")
        if scaler is not None and scaler.is_enabled():
            self.scaler, self.scale = scaler, float(scaler.get_scale())
        self._send("phase", name="warmup", at="begin")
        self._between()
        self.begun = True

    def _between(self, left: bool = False) -> None:
        """What begins and ends before step `index`; `left`: there will be no such step."""
        if self.index == self.warmup and not left:
            self.calls, self.measuring_ns = self._counters(), time.monotonic_ns()
            self._send("phase", name="measure", at="begin")
        if self.measuring_ns and (left or self.index == self.warmup + self.count):
            self.count = self.index - self.warmup
            self._send("phase", name="measure", at="end", us=-(-(time.monotonic_ns() - self.measuring_ns) // 1000))
            now, self.measuring_ns, left = self._counters(), 0, True
            self.calls = {name: (now[name] - before) / max(self.count, 1) for name, before in self.calls.items()}
        part = "steady" if self.index >= max(self.warmup, 1) else "warmup" if self.index else "first step"
        if (window := "after" if left else part) != self.window:
            self._look()
            self.window = window
            if self._stats():
                self.torch.cuda.reset_peak_memory_stats(self.device)

    def steps(self, batches: Union[None, int, Iterable[Any]] = None, scaler: Any = None) -> Iterator[Any]:
        """The warm-up and counted steps of the run: numbers from 0, or the items of `batches`, begun anew where
        they end. A step is one turn of the loop, fetching the item included. Not under Tidemark: `batches` once
        through, or that many numbers. `scaler`: a GradScaler, whose scale and skipped steps are reported."""
        numbers = batches is None or isinstance(batches, int)
        if not self.live:
            yield from range(STEPS_ALONE if batches is None else batches) if numbers else batches
            return
        if not self.begun:
            self._begin(scaler)
        source = iter(range(sys.maxsize)) if numbers else _endless(batches)
        try:
            while not self.finished():
                self.began_ns, self.open = time.monotonic_ns(), True
                yield next(source)
                if self.open:
                    self.step()
        finally:
            self._between(left=True)

    def step(self, loss: Any = None, tokens: int = 0, samples: int = 0, scale: float = 0.0,
             skipped: bool = False) -> None:
        """Ends a step. `loss`: a number or a tensor of one element, read with the clock stopped; not finite: the run
        is invalid (FloatingPointError). `tokens`, `samples`: of all ranks. `scale`, `skipped`: of a scaler unknown to
        steps(). Without steps() a step begins where the last one ended, and the first is not counted."""
        if not self.live or self.finished():
            return
        if self.device is None:
            self._find_card()
        if self.device is not None:
            self.torch.cuda.synchronize(self.device)
        us = max(1, -(-(time.monotonic_ns() - self.began_ns) // 1000))
        if not self.begun:                            # without steps(): when step 0 began is not known
            self.warmup = max(self.warmup, 1)
            self._begin()
        now, self.open = self._look(), False
        if self.scaler is not None:
            after = float(self.scaler.get_scale())
            scale, skipped, self.scale = self.scale, after < self.scale, after
        value = float(loss.detach() if hasattr(loss, "detach") else loss) if loss is not None else None
        if value is not None and not math.isfinite(value):
            if not skipped:                           # an overflow that the scaler dealt with is no fault
                text = f"the loss of step {self.index} is {value}"
                self._send("fail", cause="nan", text=text, step=self.index)
                self.live = False
                raise FloatingPointError(text)
            value = None
        more = {"live": now["requested"], "scale": float(scale) if math.isfinite(scale) else 0}
        self._send("steps", i0=self.index, phase="warmup" if self.index < self.warmup else "train", us=[us],
                   tokens=[int(tokens)], samples=[int(samples)], loss=[value],
                   skipped=[self.index] if skipped else [], **{name: [v] for name, v in more.items() if v})
        self.index += 1
        self._between()
        self.began_ns = time.monotonic_ns()

    def finished(self) -> bool:
        """Whether all steps that were asked for are done; for loops without steps()."""
        return self.begun and (not self.live or self.index >= self.warmup + self.count)

    def report(self, error: BaseException) -> bool:
        """Tells of an exception that was caught and ends the script, where it is an out-of-memory (True)."""
        text = str(error)
        raised = any(c.__name__ == "OutOfMemoryError" for c in type(error).__mro__)
        suspected = not raised and "CUBLAS_STATUS_ALLOC_FAILED" in text
        host = self.device is None and (isinstance(error, MemoryError) or "DefaultCPUAllocator: can't allocate" in text)
        if not self.live or not (raised or suspected or host or "CUDA error: out of memory" in text):
            return self.live and error.__cause__ is not None and self.report(error.__cause__)
        seen = dict(self.ooms[-1]) if raised and self.ooms else {}
        if not seen and self.device is not None and self.name != "off":
            self.snapshot(self.name + "-oom")
        if self.cap and seen and seen["reserved"] + seen["asked"] > self.cap:
            seen["cap"] = self.cap
        inside = os.path.dirname(getattr(self.torch, "__file__", None) or "?") + os.sep
        places = [f"{os.path.basename(at.filename)}:{at.lineno} {at.name}"
                  for at in traceback.extract_tb(error.__traceback__) if not at.filename.startswith(inside)]
        self._send("oom", kind="cap" if "cap" in seen else "device", step=self.index if self.begun else -1,
                   op=["the program", *places][-1], text=text.split("\n")[0][:TEXT_MAX], suspected=suspected, **seen)
        self.live = False
        return True

    def finish(self) -> None:
        """Sends peaks and result, after which nothing is reported. Happens by itself at the end of the program."""
        if not self.live or not self.started:
            return
        self._between(left=True)
        self._look()
        if self.ooms:
            self.note(f"{len(self.ooms)} times the program ran out of memory and went on", "warning")
        metrics, names = dict(self.calls), ("run",) if self.rank else ("run", "load", "first step", "steady")
        for window in (name for name in names if name in self.peaks):
            peak = self.peaks[window]
            # blocks that wait for another stream are requested and not allocated; cudaMallocAsync says 0
            if not 0 < peak["requested"] <= peak["allocated"]:
                del peak["requested"]
            if window == "run":
                metrics.update((f"mem.{kind}.peak", size) for kind, size in peak.items() if kind != "active")
            else:
                metrics["mem.allocated.peak." + window.replace(" ", "_")] = peak["allocated"]
            self._send("peak", name=f"rank {self.rank}" if self.rank else window, **peak)
        self._send("result", metrics=metrics)
        self.live = False

    @contextlib.contextmanager
    def run(self) -> Iterator[None]:
        """start(), then finish() or report(): `with tidemark.run():`, or `@tidemark.run()` on a main function."""
        self.start()
        try:
            yield
        except BaseException as error:
            self.report(error)
            raise
        self.finish()


_run = _Run()
start, steps, step, finished, finish = _run.start, _run.steps, _run.step, _run.finished, _run.finish
snapshot, note, report, run = _run.snapshot, _run.note, _run.report, _run.run
