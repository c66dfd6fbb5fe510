"""The training step of configs/peers.yaml in PyTorch, as a user would write it: the peer of our own.

    tidemark run configs/peers.yaml                                  measured beside it, alternating
    python3 torch_step.py --model gpt2-124m --batch 16 --seq 1024 --compile    alone, one JSON line

The same work as `tidemark run gpt` and `bert`: GPT-2 pre-LN with a tied head, or BERT post-LN with the
masked-language head over all positions; random tokens, AdamW with decay of matrices, gradients clipped where
--clip is given. Weights are fp32 and autocast makes bf16 or fp16 of them, which is what PyTorch users run.
"""
import argparse
import contextlib
import json
import math
import os
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../integrations/pytorch"))
import tidemark_events as tidemark  # noqa: E402

# layers, width, heads, causal, vocabulary padded to a multiple of 128
MODELS = {
    "gpt-tiny": (4, 128, 4, True, 384),
    "gpt2-124m": (12, 768, 12, True, 50304),
    "gpt2-355m": (24, 1024, 16, True, 50304),
    "gpt2-774m": (36, 1280, 20, True, 50304),
    "gpt2-1.5b": (48, 1600, 25, True, 50304),
    "bert-tiny": (2, 128, 2, False, 384),
    "bert-base": (12, 768, 12, False, 30592),
    "bert-large": (24, 1024, 16, False, 30592),
}


class Block(nn.Module):
    def __init__(self, width: int, heads: int, causal: bool, flash: bool) -> None:
        super().__init__()
        self.heads, self.causal, self.flash = heads, causal, flash
        eps = 1e-5 if causal else 1e-12
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=eps), nn.LayerNorm(width, eps=eps)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in self.qkv(x).split(c, dim=2))
        if self.flash:
            out = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(q.size(-1)))
            if self.causal:
                scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1), float("-inf"))
            out = F.softmax(scores, dim=-1) @ v
        return self.proj(out.transpose(1, 2).reshape(b, t, c))

    def mlp(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh" if self.causal else "none"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.causal:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class Model(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, causal: bool, vocab: int, context: int, args) -> None:
        super().__init__()
        self.causal, self.every = causal, args.checkpoint
        self.wte, self.wpe = nn.Embedding(vocab, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, causal, args.attention == "flash") for _ in range(layers))
        self.norm = nn.LayerNorm(width, eps=1e-5 if causal else 1e-12)
        if not causal:
            self.wtt = nn.Embedding(2, width)
            self.transform, self.head_norm = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
            self.head_bias = nn.Parameter(torch.zeros(vocab))
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.wte(ids) + self.wpe.weight[: ids.size(1)]
        if not self.causal:
            x = self.norm(x + self.wtt.weight[0])
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.every else block(x)
        if self.causal:
            logits = self.norm(x) @ self.wte.weight.t()
        else:
            logits = self.head_norm(F.gelu(self.transform(x))) @ self.wte.weight.t() + self.head_bias
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-100)


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", choices=MODELS, default="gpt2-124m")
    p.add_argument("--batch", type=int, default=16)
    p.add_argument("--seq", type=int, default=1024)
    p.add_argument("--precision", choices=("fp32", "tf32", "bf16", "fp16", "bf16-pure"), default="bf16")
    p.add_argument("--attention", choices=("flash", "materialised"), default="flash")
    p.add_argument("--checkpoint", action="store_true", help="torch.utils.checkpoint around every block")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--clip", type=float, default=0.0)
    p.add_argument("--steps", type=int, default=15, help="of a run without tidemark; the first 5 do not count")
    return p.parse_args()


def main() -> None:
    args = arguments()
    layers, width, heads, causal, vocab = MODELS[args.model]
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.precision == "tf32"
    torch.manual_seed(1)
    tidemark.start()
    model = Model(layers, width, heads, causal, vocab, max(args.seq, 1024 if causal else 512), args).cuda()
    if args.precision == "bf16-pure":
        model = model.bfloat16()
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
                                  lr=3e-4, betas=(0.9, 0.95), fused=True)
    scaler = torch.amp.GradScaler("cuda") if args.precision == "fp16" else None
    half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(args.precision)
    run = torch.compile(model) if args.compile else model

    random = torch.Generator(device="cuda").manual_seed(1)
    ids = torch.randint(vocab, (args.batch, args.seq), device="cuda", generator=random)
    targets = torch.randint(vocab, (args.batch, args.seq), device="cuda", generator=random)
    if not causal:
        chosen = torch.rand(args.batch, args.seq, device="cuda", generator=random) < 0.15
        targets = torch.where(chosen, targets, torch.full_like(targets, -100))

    def step() -> torch.Tensor:
        with torch.autocast("cuda", dtype=half) if half else contextlib.nullcontext():
            loss = run(ids, targets)
        if scaler:
            scaler.scale(loss).backward()
            if args.clip:
                scaler.unscale_(optimizer)
        else:
            loss.backward()
        if args.clip:
            nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss

    times, loss = [], None
    for _ in tidemark.steps(args.steps, scaler=scaler):
        begin = time.perf_counter()
        loss = step()
        tidemark.step(loss=loss, tokens=ids.numel(), samples=args.batch)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    if "TIDEMARK_EVENTS_FD" in os.environ or len(times) <= 5:
        return
    counted = sorted(times[5:])
    middle = counted[len(counted) // 2]
    print(json.dumps({
        "model": args.model, "batch": args.batch, "seq": args.seq, "precision": args.precision,
        "attention": args.attention, "checkpoint": args.checkpoint, "compile": args.compile,
        "ms": round(1e3 * middle, 3), "ms_min": round(1e3 * counted[0], 3), "ms_max": round(1e3 * counted[-1], 3),
        "tokens_per_s": round(ids.numel() / middle), "loss": round(float(loss), 4),
        "allocated_mib": round(torch.cuda.max_memory_allocated() / 2**20, 1),
        "reserved_mib": round(torch.cuda.max_memory_reserved() / 2**20, 1),
    }), flush=True)


if __name__ == "__main__":
    main()
