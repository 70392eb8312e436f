"""Times training steps of a GPT-2 under PyTorch's DistributedDataParallel with gloo. The environment has RANK,
WORLD_SIZE, MASTER_ADDR and MASTER_PORT, as torch.distributed expects. Rank 0 prints one line of name=value pairs.

The batch of the configuration is divided among the processes; with --weak every process has the whole batch. A time is
the largest of all processes. Steps with an exchange of gradients alternate, in blocks, with steps without it
(no_sync). exchange_ms is the difference of the medians; all_reduce_ms is the median time to add up as many bytes as the
gradients have."""

import contextlib
import os
import statistics
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import peer
from torch_model import LanguageModel

WARM, BLOCKS = 2, 3
LONGEST = timedelta(minutes=5)  # that a process waits for another one
options, configuration = peer.parse_options(
    "PyTorch with several processes",
    ["tuned", "default", "compiled"],
    ["float32"],
    weak="every process has the whole batch",
)
processes, rank = int(os.environ.get("WORLD_SIZE", 1)), int(os.environ.get("RANK", 0))
share = 1 if options.weak else processes
if configuration.batch % share:
    sys.exit(f"ddp_step.py: {processes} processes cannot share a batch of {configuration.batch}")
configuration = configuration._replace(batch=configuration.batch // share)
torch.set_num_threads(options.threads)
torch.manual_seed(1 + rank)
dist.init_process_group("gloo", rank=rank, world_size=processes, timeout=LONGEST)

tuned = options.variant != "default"
alone = LanguageModel(configuration)
model = DistributedDataParallel(alone, gradient_as_bucket_view=tuned)
adam = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=tuned or None)
run = torch.compile(model) if options.variant == "compiled" else model
data = [torch.randint(configuration.vocabulary, (2, configuration.batch, configuration.length)) for _ in range(4)]


def step(i, exchange):
    tokens, targets = data[i % 4]
    with contextlib.nullcontext() if exchange else model.no_sync():
        loss = run(tokens, targets)
        adam.zero_grad(set_to_none=True)
        loss.backward()
    adam.step()
    return loss.detach().item()


def timed(action, count):
    """Returns the seconds of `count` actions in a row, each the largest of all processes."""
    seconds = torch.zeros(count, dtype=torch.float64)
    dist.barrier()
    for i in range(count):
        begin = time.monotonic()
        action(i)
        seconds[i] = time.monotonic() - begin
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return seconds.tolist()


first_loss = step(0, True)
timed(lambda i: step(i, False), WARM)
estimate = timed(lambda i: step(i, True), WARM)[-1]
count = options.steps or max(3, min(peer.MAX_STEPS, int(options.seconds / estimate)))
steps, local = [], []
for _ in range(BLOCKS):
    steps += timed(lambda i: step(i, True), -(-count // BLOCKS))
    local += timed(lambda i: step(i, False), -(-count // BLOCKS))
gradients = torch.zeros(sum(p.numel() for p in model.parameters()))
reductions = timed(lambda i: dist.all_reduce(gradients), max(3, min(count, 10)))
last_loss = step(0, True)

if rank == 0:
    found = {
        "min_ms": min(steps),
        "median_ms": statistics.median(steps),
        "local_min_ms": min(local),
        "local_median_ms": statistics.median(local),
        "exchange_ms": statistics.median(steps) - statistics.median(local),
        "all_reduce_min_ms": min(reductions),
        "all_reduce_ms": statistics.median(reductions),
    }
    print(*(f"{name}={seconds * 1e3:.4f}" for name, seconds in found.items()), end=" ")
    print(f"steps={len(steps)} bytes={gradients.numel() * 4} peak_rss_mib={peer.peak_rss_mib():.1f}", end=" ")
    print(f"first_loss={first_loss:.5f} last_loss={last_loss:.5f} build={peer.torch_build(torch)}", flush=True)
dist.destroy_process_group()
