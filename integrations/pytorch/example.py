"""A small language model that learns the bytes of this file, on a card or on the CPU.

    python3 example.py                                                      alone
    tidemark run exec -s 'command=[python3, example.py]'                    measured
    tidemark run exec -s 'command=[python3, example.py, --batch, "16"]'     another size
    tidemark run exec -s 'command=[torchrun, --nproc-per-node, "2", example.py]'
"""
import argparse
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

import tidemark_events as tidemark


class Model(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(256, width), nn.Embedding(context, width)
        block = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 256)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        n = tokens.size(1)
        mask = nn.Transformer.generate_square_subsequent_mask(n, device=tokens.device)
        x = self.token(tokens) + self.place.weight[:n]
        return self.head(self.blocks(x, mask=mask, is_causal=True))


def batches(text: torch.Tensor, batch: int, context: int, seed: int):
    random = torch.Generator().manual_seed(seed)
    while True:
        begins = torch.randint(len(text) - context - 1, (batch,), generator=random).tolist()
        yield torch.stack([text[i:i + context + 1] for i in begins]).long()


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in (("batch", 8), ("context", 64), ("layers", 2), ("width", 64), ("heads", 4)):
        parser.add_argument("--" + name, type=int, default=default)
    parser.add_argument("--fp16", action="store_true", help="16-bit with loss scaling (needs a card)")
    parser.add_argument("--lr", type=float, default=3e-3)
    args = parser.parse_args()

    ranks, local = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("LOCAL_RANK", "0"))
    if torch.cuda.is_available():
        local %= torch.cuda.device_count()
        torch.cuda.set_device(local)
        device = torch.device("cuda", local)
    else:
        device = torch.device("cpu")
    tidemark.start()                    # from here on: cap, allocator history, out-of-memory

    seed = int(os.environ.get("TIDEMARK_SEED", "1"))
    torch.manual_seed(seed)
    model: nn.Module = Model(args.layers, args.width, args.heads, args.context).to(device)
    if ranks > 1:
        torch.distributed.init_process_group("nccl" if torch.cuda.device_count() >= ranks else "gloo")
        model = nn.parallel.DistributedDataParallel(model)
        seed += 1000 * torch.distributed.get_rank()
    optimizer = torch.optim.AdamW(model.parameters(), args.lr)
    scaler = torch.amp.GradScaler(device.type, enabled=args.fp16)
    with open(__file__, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)

    loss = torch.zeros(())
    for batch in tidemark.steps(batches(text, args.batch, args.context, seed), scaler=scaler):
        batch = batch.to(device)
        with torch.autocast(device.type, torch.float16, enabled=args.fp16):
            logits = model(batch[:, :-1])
        loss = F.cross_entropy(logits.float().transpose(1, 2), batch[:, 1:])
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        tidemark.step(loss=loss, tokens=ranks * batch[:, 1:].numel(), samples=ranks * args.batch)
    print(f"loss {loss.item():.3f}")
    if ranks > 1:
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
