"""Trains with a checkpoint: the first attempt fails after half of the work, once
it may; the next goes on from there.

Usage: torchrun resume.py CHECKPOINT. The first attempt fails when the file
CHECKPOINT.fail exists.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

EPOCHS = 10

checkpoint = sys.argv[1]
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
inputs = torch.randn(256, 8)
targets = inputs.sum(dim=1, keepdim=True)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

resumed = os.path.exists(checkpoint)
losses = []
if resumed:
    saved = torch.load(checkpoint)
    model.module.load_state_dict(saved["model"])
    losses = saved["losses"]
dist.barrier()
first = len(losses)

for epoch in range(first, EPOCHS if resumed else EPOCHS // 2):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    total = loss.detach().clone()
    dist.all_reduce(total)
    losses.append(total.item() / world)

if not resumed:
    if rank == 0:
        torch.save({"model": model.module.state_dict(), "losses": losses}, checkpoint + ".new")
        os.rename(checkpoint + ".new", checkpoint)
        while not os.path.exists(checkpoint + ".fail"):
            time.sleep(0.1)
        sys.exit("the first attempt fails")
    dist.barrier()  # never passed

weights = model.module.weight.sum().item()
text = " ".join(f"{loss:.6f}" for loss in losses)
print(f"rank {rank} of {world} from epoch {first} weights {weights:.6f} losses {text}\n", end="", flush=True)
