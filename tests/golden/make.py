#!/usr/bin/env python3
"""Makes the reference numbers of tests/golden/data with PyTorch, in float64.

usage: make.py [OUTPUT_FOLDER]      (needs torch and numpy; the project itself does not)

The models are written here in plain PyTorch, independently of the C code, and
differentiated by autograd. Initial weights, tokens and dropout masks come from
the same counter-based generator as in the C code (Philox4x32-10), written
here a second time with numpy. What is stored:

  manifest.json    torch version, each case's configuration, ten losses (one a step,
                   AdamW between them), where each gradient tensor of step 0 is, and the
                   norm of each parameter after the ten steps; also hashes of samples of
                   many lengths, and how many tokens a sample some steps draw
  CASE.N.f32       gradients of step 0 rounded to float32, little-endian, one after the other

The head on masked positions only and flash attention compute the same numbers
as their alternatives, so they are compared with the same files.

Everything is computed in float64, so that a difference is the C code's rounding
and not the reference's.
"""
import hashlib, json, math, os, sys
import numpy as np
import torch
import torch.nn.functional as F

INIT_STD = 0.02
SITE_INIT, SITE_DATA = 0x80000000, 0xC0000000
TOKENS, START, CHOSEN, HOW, REPLACEMENT, LENGTH, SEQ = range(7)
PAD, MASK, CLS, SEP = 256, 257, 258, 259
PIECE_BYTES = 1 << 20

CASES = [
    dict(name='gpt-tiny', kind='gpt', layers=4, width=128, heads=4, context=256, vocab=384, dropout=0.0,
         batch=2, seq=64, accum=1, beta2=0.95, weight_decay=0.1, lr=3e-4),
    dict(name='bert-tiny', kind='bert', layers=2, width=128, heads=2, context=128, vocab=384, dropout=0.0,
         batch=2, seq=64, accum=1, beta2=0.999, weight_decay=0.01, lr=1e-4),
    # small shapes with every dropout, two micro-batches, a vocabulary that needs padding, a short sequence
    dict(name='gpt-drop', kind='gpt', layers=2, width=32, heads=2, context=40, vocab=300, dropout=0.1,
         batch=2, seq=32, accum=2, beta2=0.95, weight_decay=0.1, lr=3e-4),
    dict(name='bert-drop', kind='bert', layers=2, width=32, heads=2, context=40, vocab=300, dropout=0.1,
         batch=2, seq=32, accum=2, beta2=0.999, weight_decay=0.01, lr=1e-4),
    # the same with samples of drawn lengths, padded behind
    dict(name='bert-lengths', kind='bert', layers=2, width=32, heads=2, context=40, vocab=300, dropout=0.1,
         batch=2, seq=32, accum=2, beta2=0.999, weight_decay=0.01, lr=1e-4, lengths='random'),
]
# samples alone: none without padding is like another, seeds beyond 32 bits, numbers far into a run
DATA = [
    dict(kind='gpt', vocab=50257, seq=128, seed=7, first=0, n=3),
    dict(kind='gpt', vocab=300, seq=5, seed=2**40 + 3, first=10**6, n=5),
    dict(kind='bert', vocab=30522, seq=512, seed=7, first=0, n=4),
    dict(kind='bert', vocab=30522, seq=512, seed=7, first=4, n=4, lengths='random'),
    dict(kind='bert', vocab=384, seq=128, seed=2**40 + 3, first=10**6, n=20, lengths='random'),
    dict(kind='bert', vocab=300, seq=13, seed=1, first=0, n=40, lengths='random'),
    dict(kind='bert', vocab=300, seq=3, seed=1, first=0, n=10, lengths='random'),
]
DRAWN = dict(seed=5, choices=[64, 128, 128, 32], steps=40)
COMMON = dict(seed=1, beta1=0.9, eps=1e-8, clip=1.0, steps=10)


# ---- the counter-based generator ------------------------------------------------

def philox(seed, site, step, n, first=0):
    """Words first … first+n-1 of a stream: word i is word i % 4 of block i // 4."""
    blocks = np.arange(first // 4, (first + n + 3) // 4, dtype=np.uint64)
    low = np.uint64(0xFFFFFFFF)
    s32 = np.uint64(32)
    c0, c1 = blocks & low, blocks >> s32
    c2 = np.full_like(blocks, site)
    c3 = np.full_like(blocks, step)
    k0, k1 = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        a, b = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = ((b >> s32) ^ c1 ^ np.uint64(k0), b & low,
                          (a >> s32) ^ c3 ^ np.uint64(k1), a & low)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], 1).reshape(-1)[first % 4:][:n]


def words(seed, site, step, first, n):
    return philox(seed, site, step, n, first)


def normal(seed, site, n, std):
    w = philox(seed, site, 0, (n + 3) // 4 * 4).astype(np.float64).reshape(-1, 2)
    r = np.sqrt(-2.0 * np.log((w[:, 0] + 1.0) / 2**32))
    angle = 2.0 * math.pi * (w[:, 1] / 2**32)
    return (std * np.stack([r * np.cos(angle), r * np.sin(angle)], 1).reshape(-1)[:n]).astype(np.float32)


def keep_mask(c, micro, place, step, shape):
    """1/(1-p) where kept, 0 where dropped."""
    p = float(np.float32(c['dropout']))
    n = int(np.prod(shape))
    site = micro * (1 + 3 * c['layers']) + place
    kept = philox(c['seed'], site, step, n) >= np.uint64(int(p * 4294967296.0))
    return torch.from_numpy(kept.reshape(shape)).double() / (1.0 - p)


# ---- parameters, in order ----------------------------------------------------------

def parameters(c):
    """(name, shape, std or None, constant) of each; decay follows from the rank."""
    C, L = c['width'], c['layers']
    V = (c['vocab'] + 127) // 128 * 128
    out = []

    def linear(name, n, k, std=INIT_STD):
        out.append((name + '.weight', (n, k), std, 0))
        out.append((name + '.bias', (n,), None, 0))

    def norm(name):
        out.append((name + '.weight', (C,), None, 1))
        out.append((name + '.bias', (C,), None, 0))

    if c['kind'] == 'gpt':
        residual = INIT_STD / math.sqrt(2.0 * L)
        out.append(('wte.weight', (V, C), INIT_STD, 0))
        out.append(('wpe.weight', (c['context'], C), INIT_STD, 0))
        for l in range(L):
            norm(f'h.{l}.ln_1')
            linear(f'h.{l}.attn.c_attn', 3 * C, C)
            linear(f'h.{l}.attn.c_proj', C, C, residual)
            norm(f'h.{l}.ln_2')
            linear(f'h.{l}.mlp.c_fc', 4 * C, C)
            linear(f'h.{l}.mlp.c_proj', C, 4 * C, residual)
        norm('ln_f')
    else:
        out.append(('embeddings.word_embeddings.weight', (V, C), INIT_STD, 0))
        out.append(('embeddings.position_embeddings.weight', (c['context'], C), INIT_STD, 0))
        out.append(('embeddings.token_type_embeddings.weight', (2, C), INIT_STD, 0))
        norm('embeddings.LayerNorm')
        for l in range(L):
            linear(f'encoder.layer.{l}.attention.self.qkv', 3 * C, C)
            linear(f'encoder.layer.{l}.attention.output.dense', C, C)
            norm(f'encoder.layer.{l}.attention.output.LayerNorm')
            linear(f'encoder.layer.{l}.intermediate.dense', 4 * C, C)
            linear(f'encoder.layer.{l}.output.dense', C, 4 * C)
            norm(f'encoder.layer.{l}.output.LayerNorm')
        linear('cls.predictions.transform.dense', C, C)
        norm('cls.predictions.transform.LayerNorm')
        out.append(('cls.predictions.bias', (V,), None, 0))
    return out


def init(c):
    w = {}
    for i, (name, shape, std, value) in enumerate(parameters(c)):
        n = int(np.prod(shape))
        x = normal(c['seed'], SITE_INIT + i, n, std) if std else np.full(n, value, np.float32)
        w[name] = torch.from_numpy(x.reshape(shape)).double().requires_grad_()
    return w


# ---- data ---------------------------------------------------------------------------

def below(c, what, first, n, limit):
    return (words(c['seed'], SITE_DATA + what, 0, first, n) * np.uint64(limit)) >> np.uint64(32)


def share(c, what, index):
    return np.float32(float(words(c['seed'], SITE_DATA + what, 0, index, 1)[0]) / 4294967296.0)


def length(c, number):
    """Tokens of a sample that are no padding."""
    T = c['seq']
    if c.get('lengths') != 'random':
        return T
    least = max(3, -(-T // 4))
    return least + int(below(c, LENGTH, number, 1, T - least + 1)[0])


def sample(c, number):
    """(ids, targets, length)"""
    T = c['seq']
    if c['kind'] == 'gpt':
        line = below(c, TOKENS, number * (T + 1), T + 1, c['vocab']).astype(np.int64)
        return line[:-1], line[1:], T
    size = length(c, number)
    n = size - 2
    line = below(c, TOKENS, number * T, n, c['vocab']).astype(np.int64)
    ids = np.concatenate([[CLS], line, [SEP], np.full(T - size, PAD)])
    targets = np.full(T, -1, np.int64)
    # exactly 15 % of what stands between CLS and SEP: the smallest keys, the earlier of equal ones
    keys = words(c['seed'], SITE_DATA + CHOSEN, 0, number * T + 1, n)
    count = max(1, (15 * n + 50) // 100)
    for t in 1 + np.sort(np.argsort(keys, kind='stable')[:count]):
        targets[t] = ids[t]
        how = share(c, HOW, number * T + t)
        if how < np.float32(0.8):
            ids[t] = MASK
        elif how < np.float32(0.9):
            ids[t] = int(below(c, REPLACEMENT, number * T + t, 1, c['vocab'])[0])
    return ids, targets, size


def data_entry(c):
    rows = [sample(c, c['first'] + i) for i in range(c['n'])]
    raw = b''.join(np.stack([r[k] for r in rows]).astype('<i4').tobytes() for k in range(3))
    return {**c, 'counted': int(sum((r[1] >= 0).sum() for r in rows)), 'sha256': hashlib.sha256(raw).hexdigest()}


def drawn_entry(c):
    n = len(c['choices'])
    return {**c, 'seq': [c['choices'][int(i)] for i in below(c, SEQ, 0, c['steps'], n)]}


# ---- the models -----------------------------------------------------------------------

def attention(c, w, x, name, drop, sizes):
    B, T, C = x.shape
    H, D = c['heads'], C // c['heads']
    qkv = F.linear(x, w[name + '.weight'], w[name + '.bias'])
    q, k, v = (z.view(B, T, H, D).transpose(1, 2) for z in qkv.split(C, 2))
    s = q @ k.transpose(-2, -1) / math.sqrt(D)
    if c['kind'] == 'gpt':
        s = s.masked_fill(torch.ones(T, T).triu(1).bool(), -math.inf)
    padding = torch.arange(T)[None, :] >= sizes[:, None]            # no query sees a key that is padding
    s = s.masked_fill(padding[:, None, None, :], -math.inf)
    p = drop(F.softmax(s, dim=-1))
    return (p @ v).transpose(1, 2).reshape(B, T, C)


def losses(c, w, ids, targets, sizes, step, micro):
    """Summed loss of one micro-batch."""
    C, L = c['width'], c['layers']
    eps = 1e-5 if c['kind'] == 'gpt' else 1e-12

    def drop(place):
        if c['dropout'] == 0:
            return lambda x: x
        return lambda x: x * keep_mask(c, micro, place, step, tuple(x.shape))

    def norm(x, name):
        return F.layer_norm(x, (C,), w[name + '.weight'], w[name + '.bias'], eps)

    def lin(x, name):
        return F.linear(x, w[name + '.weight'], w[name + '.bias'])

    T = ids.shape[1]
    if c['kind'] == 'gpt':
        x = drop(0)(w['wte.weight'][ids] + w['wpe.weight'][:T])
        for l in range(L):
            h = f'h.{l}.'
            a = attention(c, w, norm(x, h + 'ln_1'), h + 'attn.c_attn', drop(1 + 3 * l), sizes)
            x = x + drop(2 + 3 * l)(lin(a, h + 'attn.c_proj'))
            m = F.gelu(lin(norm(x, h + 'ln_2'), h + 'mlp.c_fc'), approximate='tanh')
            x = x + drop(3 + 3 * l)(lin(m, h + 'mlp.c_proj'))
        logits = norm(x, 'ln_f') @ w['wte.weight'].T
    else:
        e = 'embeddings.'
        x = (w[e + 'word_embeddings.weight'][ids] + w[e + 'position_embeddings.weight'][:T]
             + w[e + 'token_type_embeddings.weight'][0])
        x = drop(0)(norm(x, e + 'LayerNorm'))
        for l in range(L):
            h = f'encoder.layer.{l}.'
            a = attention(c, w, x, h + 'attention.self.qkv', drop(1 + 3 * l), sizes)
            x = norm(x + drop(2 + 3 * l)(lin(a, h + 'attention.output.dense')), h + 'attention.output.LayerNorm')
            m = F.gelu(lin(x, h + 'intermediate.dense'))
            x = norm(x + drop(3 + 3 * l)(lin(m, h + 'output.dense')), h + 'output.LayerNorm')
        t = norm(F.gelu(lin(x, 'cls.predictions.transform.dense')), 'cls.predictions.transform.LayerNorm')
        logits = t @ w[e + 'word_embeddings.weight'].T + w['cls.predictions.bias']
    logits = logits[..., :c['vocab']]            # the padding is no token
    return F.cross_entropy(logits.reshape(-1, c['vocab']), targets.reshape(-1), ignore_index=-1, reduction='sum')


def train(c):
    """Losses of ten steps, the gradients of the first before clipping, the norms of the weights at the end."""
    w = init(c)
    opt = torch.optim.AdamW([
        dict(params=[p for p in w.values() if p.dim() > 1], weight_decay=c['weight_decay']),
        dict(params=[p for p in w.values() if p.dim() == 1], weight_decay=0.0),
    ], lr=c['lr'], betas=(c['beta1'], c['beta2']), eps=c['eps'])
    history, first = [], None
    for step in range(c['steps']):
        n = c['accum'] * c['batch']
        rows = [sample(c, step * n + i) for i in range(n)]
        ids = torch.from_numpy(np.stack([r[0] for r in rows]))
        targets = torch.from_numpy(np.stack([r[1] for r in rows]))
        sizes = torch.tensor([r[2] for r in rows])
        counted = int((targets >= 0).sum())
        opt.zero_grad(set_to_none=True)
        total = 0.0
        for micro in range(c['accum']):
            part = slice(micro * c['batch'], (micro + 1) * c['batch'])
            loss = losses(c, w, ids[part], targets[part], sizes[part], step, micro) / counted
            loss.backward()
            total += loss.item()
        history.append(total)
        if first is None:
            first = {k: p.grad.clone() for k, p in w.items()}
        torch.nn.utils.clip_grad_norm_(list(w.values()), c['clip'])
        opt.step()
    return history, first, {k: p.detach().norm().item() for k, p in w.items()}


def store(c, gradients, norms, folder):
    """Writes the pieces, returns the entries of the manifest."""
    entries, piece, blob = [], 0, b''

    def flush():
        nonlocal piece, blob
        with open(os.path.join(folder, f"{c['name']}.{piece}.f32"), 'wb') as f:
            f.write(blob)
        piece, blob = piece + 1, b''

    for name, g in gradients.items():
        raw = g.numpy().astype('<f4').tobytes()
        if blob and len(blob) + len(raw) > PIECE_BYTES:
            flush()
        entries.append(dict(name=name, shape=list(g.shape), file=f"{c['name']}.{piece}.f32", offset=len(blob),
                            sha256=hashlib.sha256(raw).hexdigest(), final_norm=norms[name]))
        blob += raw
    flush()
    return entries


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(os.path.abspath(__file__)), 'data')
    os.makedirs(folder, exist_ok=True)
    torch.set_num_threads(2)
    cases = []
    for case in CASES:
        c = {**case, **COMMON}
        history, gradients, norms = train(c)
        weights = hashlib.sha256(b''.join(p.detach().numpy().astype('<f4').tobytes() for p in init(c).values()))
        cases.append({**c, 'losses': history, 'weights_sha256': weights.hexdigest(),
                      'gradients': store(c, gradients, norms, folder)})
        print(f"{c['name']}: loss {history[0]:.6f} … {history[-1]:.6f}, {len(gradients)} tensors")
    manifest = dict(torch=torch.__version__, numpy=np.__version__, type='float64, stored as float32', cases=cases,
                    data=[data_entry(c) for c in DATA], drawn=drawn_entry(DRAWN))
    with open(os.path.join(folder, 'manifest.json'), 'w') as f:
        json.dump(manifest, f, indent=1)
        f.write('\n')


if __name__ == '__main__':
    main()
