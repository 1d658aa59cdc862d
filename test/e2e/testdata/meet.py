"""Meets the other processes of its gang, waits until it may go on, and meets them
again.

Usage: meet.py torch|jax|xgboost DIRECTORY, the first by torchrun. It goes on when
the file DIRECTORY/go exists. The first process dies where the file DIRECTORY/die is,
which it takes away. Where to meet it finds in the framework's variables.
"""

import os
import socket
import sys
import time


def say(text):
    os.write(1, (text + "\n").encode())  # in one piece: processes share the pipe


class Torch:
    def __init__(self):
        import torch
        import torch.distributed as dist

        self.torch, self.dist = torch, dist
        dist.init_process_group("gloo")
        self.rank, self.world = dist.get_rank(), dist.get_world_size()
        self.at = os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"]

    def sum(self, number):
        total = self.torch.tensor([number])
        self.dist.all_reduce(total)
        return int(total.item())

    def end(self):
        # Without it the threads of gloo are now and then ended by abort() at exit.
        self.dist.destroy_process_group()


class JAX:
    """JAX's coordinator, as far as its address goes: the first process serves."""

    def __init__(self):
        self.rank, self.world = int(os.environ["JAX_PROCESS_ID"]), int(os.environ["JAX_NUM_PROCESSES"])
        self.at = os.environ["JAX_COORDINATOR_ADDRESS"]
        host, port = self.at.rsplit(":", 1)
        if self.rank == 0:
            self.server = socket.create_server(("", int(port)))
            self.peers = [self.server.accept()[0] for _ in range(self.world - 1)]
        else:
            while True:
                try:
                    self.peers = [socket.create_connection((host, int(port)))]
                    break
                except ConnectionRefusedError:
                    time.sleep(0.1)
        self.files = [p.makefile("rw") for p in self.peers]

    def sum(self, number):
        if self.rank == 0:
            number += sum(int(f.readline()) for f in self.files)
        for f in self.files:
            print(number, file=f, flush=True)
        return number if self.rank == 0 else int(self.files[0].readline())

    def end(self):
        pass


class XGBoost:
    """Before XGBoost 2.1. The first worker runs the tracker."""

    def __init__(self):
        import numpy
        from xgboost import collective, tracker

        self.numpy, self.collective, self.server = numpy, collective, None
        workers, port = int(os.environ["DMLC_NUM_WORKER"]), os.environ["DMLC_TRACKER_PORT"]
        self.at = os.environ["DMLC_TRACKER_URI"] + ":" + port
        if os.environ["DMLC_TASK_ID"] == "0":
            self.server = tracker.RabitTracker(host_ip="0.0.0.0", n_workers=workers, port=int(port), sortby="task")
            self.server.start(workers)
        collective.init()
        self.rank, self.world = collective.get_rank(), collective.get_world_size()

    def sum(self, number):
        return int(self.collective.allreduce(self.numpy.ones(1) * number, self.collective.Op.SUM)[0])

    def end(self):
        self.collective.finalize()
        if self.server:
            self.server.join()


gang = {"torch": Torch, "jax": JAX, "xgboost": XGBoost}[sys.argv[1]]()
say(f"rank {gang.rank} of {gang.world} met at {gang.at}: the sum is {gang.sum(gang.rank + 1)}")
die = os.path.join(sys.argv[2], "die")
if gang.rank == 0 and os.path.exists(die):
    os.remove(die)
    os._exit(3)
while not os.path.exists(os.path.join(sys.argv[2], "go")):
    time.sleep(0.1)
say(f"rank {gang.rank} met again: the sum is {gang.sum(gang.rank + 1)}")
gang.end()
