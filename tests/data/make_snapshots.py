#!/usr/bin/env python3
"""Makes the snapshots in this folder: small, invented, of every shape that
recordings of PyTorch's memory are found in. Standard library only.

    python3 tests/data/make_snapshots.py [FOLDER]

Requests go through a small caching allocator with PyTorch's default rules, so
that addresses and segments are those of a real recording.
"""
import gzip
import json
import lzma
import os
import pickle
import random
import struct
import sys

MIB = 1 << 20
EPOCH_US = 1764547200000000


class Allocator:
    """Default settings, one device. Blocks are [addr, size, requested, state, stream, small, frames, segment]."""

    ADDR, SIZE, REQUESTED, STATE, STREAM, SMALL, FRAMES, SEGMENT = range(8)

    def __init__(self, device=0, low=0x7F2000000000):
        self.device, self.low, self.time = device, low, EPOCH_US
        self.blocks, self.segments, self.events = [], {}, []
        self.recording = True
        self.with_time = True

    def note(self, action, addr, size, stream, frames):
        self.time += 7
        if not self.recording:
            return
        e = {"action": action, "addr": addr, "size": size, "stream": stream}
        if self.with_time:
            e["time_us"] = self.time
        if frames:
            e["frames"] = frames
        self.events.append(e)

    def alloc(self, n, stream=0, frames=()):
        size = (n + 511) // 512 * 512
        small = size <= MIB
        fits = [b for b in self.blocks if b[3] == "inactive" and b[4] == stream and b[5] == small and b[1] >= size]
        block = min(fits, key=lambda b: (b[1], b[0]), default=None)
        if block is None:
            total = 2 * MIB if small else 20 * MIB if size < 10 * MIB else (size + 2 * MIB - 1) // (2 * MIB) * 2 * MIB
            self.low -= (total + 32 * MIB - 1) // (32 * MIB) * 32 * MIB
            self.segments[self.low] = (total, stream, small, list(frames))
            block = [self.low, total, 0, "inactive", stream, small, [], self.low]
            self.blocks.append(block)
            self.note("segment_alloc", self.low, total, stream, list(frames))
        rest = block[1] - size
        if rest >= 512 if small else rest > MIB:
            self.blocks.append([block[0] + size, rest, 0, "inactive", stream, small, [], block[7]])
            block[1] = size
        block[2], block[3], block[6] = n, "active_allocated", list(frames)
        self.note("alloc", block[0], n, stream, list(frames))
        return block

    def free(self, block, frames=(), later=False):
        self.note("free_requested", block[0], block[2], block[4], list(frames))
        block[3] = "active_pending_free"
        if not later:
            self.complete(block, frames)

    def complete(self, block, frames=()):
        self.note("free_completed", block[0], block[2], block[4], list(frames))
        block[3], block[6] = "inactive", []
        for other in list(self.blocks):
            if other is block or other[3] != "inactive" or other[7] != block[7]:
                continue
            if other[0] + other[1] == block[0] or block[0] + block[1] == other[0]:
                block[0] = min(block[0], other[0])
                block[1] += other[1]
                self.blocks.remove(other)

    def empty_cache(self):
        for addr, (total, stream, _, frames) in sorted(self.segments.items()):
            whole = [b for b in self.blocks if b[7] == addr]
            if len(whole) == 1 and whole[0][3] == "inactive":
                self.note("segment_free", addr, total, stream, frames)
                self.blocks.remove(whole[0])
                del self.segments[addr]

    def live(self):
        return sum(b[1] for b in self.blocks if b[3] != "inactive")

    def mark(self):
        self.note("snapshot", 0, self.live(), 0, [])

    def segment_list(self):
        out = []
        for addr, (total, stream, small, frames) in sorted(self.segments.items()):
            inside = sorted((b for b in self.blocks if b[7] == addr), key=lambda b: b[0])
            active = [b for b in inside if b[3] != "inactive"]
            out.append({
                "device": self.device, "address": addr, "total_size": total,
                "allocated_size": sum(b[1] for b in active if b[3] == "active_allocated"),
                "active_size": sum(b[1] for b in active), "requested_size": sum(b[2] for b in active),
                "stream": stream, "segment_type": "small" if small else "large",
                "segment_pool_id": (0, 0), "is_expandable": False, "frames": frames,
                "blocks": [{"address": b[0], "size": b[1], "requested_size": b[2], "state": b[3], "frames": b[6]}
                           for b in inside],
            })
        return out


def settings(**more):
    s = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
         "expandable_segments": False, "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": False,
         "pinned_use_cuda_host_register": False,
         "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)}}
    s.update(more)
    return s


def snapshot(*allocators, notes=(), **more):
    n = max(a.device for a in allocators) + 1
    traces = [[] for _ in range(n)]
    for a in allocators:
        traces[a.device] = a.events
    return {"segments": [s for a in allocators for s in a.segment_list()], "device_traces": traces,
            "allocator_settings": settings(**more), "external_annotations": list(notes)}


def frame(name, filename, line):
    return {"name": name, "filename": filename, "line": line}


def mixed(seed, n=400, **kwargs):
    """A program of random requests on two streams, with frames, some frees of which wait."""
    rng = random.Random(seed)
    a = Allocator(**kwargs)
    stacks = [[frame("empty", "torch/functional.py", 0), frame("forward", "model.py", 10 + i),
               frame("main", "train.py", 40)] for i in range(5)]
    live = []
    for _ in range(n):
        if live and rng.random() < 0.45:
            a.free(live.pop(rng.randrange(len(live))), later=rng.random() < 0.02)
        else:
            size = rng.choice([rng.randrange(1, 4096), rng.randrange(4096, MIB), rng.randrange(MIB, 30 * MIB)])
            live.append(a.alloc(size, rng.choice([0, 0, 0, 94_000_000_000_000]), rng.choice(stacks)))
    return a


def forward(half):
    """A forward pass that keeps no activations; in half precision autocast keeps a half copy of each weight."""
    a = Allocator(low=0x7FDD00000000)
    a.recording = False
    weights = [a.alloc(n * 4) for _ in range(12) for n in (589824, 589824, 589824, 589824, 2359296, 2359296)]
    a.alloc(8519680)                      # library workspace
    a.recording = True
    copies, x = [], a.alloc(4 * 512 * 768)
    for w in weights:
        if half:
            copies.append(a.alloc(w[2] // 2, frames=[frame("cast", "autocast.py", 0), frame("linear", "model.py", 31)]))
        y = a.alloc((2 if half else 4) * 512 * 768)
        a.free(x)
        x = y
    a.free(x)
    for c in copies:
        a.free(c)
    return snapshot(a)


def hidden_slack():
    """A tensor of 4 MiB sits in a block of 4.9375 MiB since before the recording; only its free is recorded."""
    a = Allocator(low=0x7FAA00000000)
    a.recording = False
    first = a.alloc(39 * MIB + 64 * 1024)
    hole = a.alloc(4 * MIB + 15 * 64 * 1024)
    rest = a.alloc(64 * MIB)
    a.free(first), a.free(hole), a.free(rest)
    keep = [a.alloc(39 * MIB + 64 * 1024), a.alloc(4 * MIB + 15 * 64 * 1024), a.alloc(4 * MIB)]
    a.free(keep[1])
    slack = a.alloc(4 * MIB)              # 15/16 MiB are left, too little to be split off
    a.free(keep[2])
    a.recording = True
    behind = a.alloc(3 * MIB)             # begins where the block really ends
    assert slack[1] == 4 * MIB + 15 * 64 * 1024 and behind[0] == slack[0] + slack[1]
    for i in range(20):
        a.free(a.alloc(5 * MIB + i * 1000))
    a.free(slack)
    a.free(a.alloc(4 * MIB + 300 * 1024))
    a.free(behind)
    return snapshot(a)


def marks():
    """Nine snapshots were taken, with the same live bytes each time; what is reserved grows, then stops."""
    a = Allocator()
    a.recording = False
    model = [a.alloc(4 * MIB) for _ in range(11)] + [a.alloc(2650000)]
    a.recording = True
    for i in range(9):
        temp = [a.alloc(min(i, 4) * 3 * MIB + 11 * MIB), a.alloc(2 * MIB)]
        for t in temp:
            a.free(t)
        a.mark()
    assert model
    return snapshot(a)


def step_from_nothing():
    a = Allocator()
    a.alloc(100 * MIB)
    a.mark()
    a.alloc(20 * MIB)
    return snapshot(a)


def leak(n):
    """State only: n copies of one model's blocks."""
    a = Allocator()
    a.recording = False
    for _ in range(n):
        for size in (2621440, 1310720, 2621440):
            a.alloc(size)
    return {"segments": a.segment_list(), "device_traces": [[], []]}


def torch20():
    """Of PyTorch 2.0: no expandable flag, no pool, blocks without address and frames, a history in their place."""
    a = mixed(7, 120)
    segments = a.segment_list()
    for s in segments:
        del s["is_expandable"], s["segment_pool_id"], s["frames"]
        for b in s["blocks"]:
            addr, state, real = b.pop("address"), b["state"], b.pop("requested_size")
            frames = b.pop("frames")
            if state != "inactive":
                b["history"] = [{"addr": addr, "real_size": real, "frames": frames}]
    marker = {"action": "snapshot", "addr": 0, "size": a.live(), "stream": 0}
    return {"segments": segments, "device_traces": [[marker]]}


def one_event():
    a = Allocator(device=1)
    a.recording = False
    keep = [a.alloc(5 * MIB) for _ in range(3)]
    a.free(keep[1])
    return {"segments": a.segment_list(), "device_traces": [
        [{"action": "snapshot", "addr": 0, "size": 0, "stream": 0, "time_us": EPOCH_US}],
        [{"action": "free_completed", "addr": 0x7E0000000000, "size": 4096, "stream": 0, "time_us": EPOCH_US}]]}


def without_time():
    a = Allocator()
    a.with_time = False
    keep = [a.alloc(3 * MIB) for _ in range(6)]
    a.free(keep[2])
    return snapshot(a)


def ring(n, rotated=False, entries=200):
    """Only the last events are left; rotated: as a ring that was made smaller writes them."""
    a = mixed(11, n)
    a.events = a.events[-entries:]
    if rotated:
        a.events = a.events[70:] + a.events[:70]
        return snapshot(a)
    return snapshot(a, trace_alloc_max_entries=entries, trace_alloc_overflowed=True)


def old_settings():
    a = mixed(13, 60)
    for part in (a.events, a.blocks):
        for e in part:
            if isinstance(e, dict) and e["stream"]:
                e["stream"] = -4096        # a handle with its highest bit set, as a signed number
    segments = snapshot(a)
    for s in segments["segments"]:
        if s["stream"]:
            s["stream"] = (1 << 64) - 4096  # and as an unsigned one
    segments["allocator_settings"] = settings(max_split_size=(1 << 64) - 1)
    return segments


def annotated():
    a = mixed(17, 40)
    notes = [{"stage": stage, "name": "step %d" % i, "device": 0, "time_us": EPOCH_US + 100 * i + 50 * (stage == "END")}
             for i in range(3) for stage in ("START", "END")]
    for i, e in enumerate(a.events):
        e.update(compile_context="N/A", user_metadata="unit %d" % (i % 3), pool_id=(0, 0))
    a.events.insert(9, {"action": "user_defined", "addr": 1, "size": 1, "stream": 0, "time_us": a.events[8]["time_us"]})
    return snapshot(a, notes=notes)


def out_of_memory():
    """The request that failed, with what the driver had left."""
    a = Allocator()
    keep = [a.alloc(n * MIB) for n in (40, 60, 80)]
    a.free(keep[1])
    a.events.append({"action": "oom", "device_free": 33 * MIB, "size": 500 * MIB, "stream": 0, "time_us": a.time + 3})
    return snapshot(a)


def cpp(value):
    """As the C++ writer does: protocol 2, one group a list, texts kept by value, 8 bytes for large numbers."""
    out, memo = [b"\x80\x02"], {}

    def put():
        n = len(memo)
        memo[object()] = n
        out.append(b"q" + bytes([n]) if n < 256 else b"r" + struct.pack("<I", n))
        return n

    def write(v):
        if isinstance(v, bool):
            out.append(b"\x88" if v else b"\x89")
        elif isinstance(v, int):
            if 0 <= v < 256:
                out.append(b"K" + bytes([v]))
            elif 0 <= v < 65536:
                out.append(b"M" + struct.pack("<H", v))
            elif -(1 << 31) <= v < 1 << 31:
                out.append(b"J" + struct.pack("<i", v))
            else:
                out.append(b"\x8a\x08" + struct.pack("<q", v))
        elif isinstance(v, float):
            out.append(b"G" + struct.pack(">d", v))
        elif isinstance(v, str):
            if v in memo:
                n = memo[v]
                out.append(b"h" + bytes([n]) if n < 256 else b"j" + struct.pack("<I", n))
                return
            s = v.encode()
            out.append(b"X" + struct.pack("<I", len(s)) + s)
            memo[v] = put()
        elif isinstance(v, dict):
            out.append(b"}")
            put()
            out.append(b"(")
            for key, item in v.items():
                write(key)
                write(item)
            out.append(b"u")
        elif isinstance(v, tuple):
            for item in v:
                write(item)
            out.append(b"\x86")
        else:
            out.append(b"]")
            put()
            out.append(b"(")
            for item in v:
                write(item)
            out.append(b"e")

    write(value)
    return b"".join(out) + b"."


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.dirname(os.path.abspath(__file__))
    two = snapshot(mixed(3, 150), mixed(5, 90, device=2, low=0x7E0000000000))
    plain = snapshot(mixed(1))
    files = {
        "plain.pickle": pickle.dumps(plain, 4),
        "protocol2.pickle": pickle.dumps(plain, 2),
        "protocol3.pickle": pickle.dumps(plain, 3),
        "protocol5.pickle": pickle.dumps(plain, 5),
        "cpp.pickle": cpp(plain),
        "plain.json": json.dumps(plain).encode(),
        "plain.pickle.xz": lzma.compress(pickle.dumps(plain, 4)),
        "plain.pickle.gz": gzip.compress(pickle.dumps(plain, 4), mtime=0),
        "devices.pickle": pickle.dumps(two, 4),
        "segments_only.pickle": pickle.dumps([s for s in snapshot(mixed(9, 80, device=1))["segments"]], 4),
        "empty_traces.pickle": pickle.dumps(leak(6), 4),
        "leak_before.pickle": pickle.dumps(leak(8), 4),
        "leak_after.pickle": pickle.dumps(leak(40), 4),
        "one_event.pickle": pickle.dumps(one_event(), 4),
        "torch20.pickle": pickle.dumps(torch20(), 4),
        "oom_without_event.pickle": pickle.dumps(snapshot(mixed(21, 60)), 4),
        "oom_event.pickle": pickle.dumps(out_of_memory(), 4),
        "without_time.pickle": pickle.dumps(without_time(), 4),
        "forward_fp32.pickle": pickle.dumps(forward(False), 4),
        "forward_bf16.pickle": pickle.dumps(forward(True), 4),
        "hidden_slack.pickle": pickle.dumps(hidden_slack(), 4),
        "marks.pickle": pickle.dumps(marks(), 4),
        "step_from_nothing.pickle": pickle.dumps(step_from_nothing(), 4),
        "ring.pickle": pickle.dumps(ring(500), 4),
        "ring_rotated.pickle": pickle.dumps(ring(500, True), 4),
        "old_settings.pickle": pickle.dumps(old_settings(), 4),
        "annotated.pickle": pickle.dumps(annotated(), 4),
    }
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as f:
            f.write(content)


if __name__ == "__main__":
    main()
