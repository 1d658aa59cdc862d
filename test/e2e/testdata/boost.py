"""Trains XGBoost's trees with rows that are spread over the workers, from the
DMLC_* variables, for XGBoost before 2.1. The first worker runs the tracker.
"""

import os

import numpy
import xgboost
from xgboost import collective, tracker

task, workers = os.environ["DMLC_TASK_ID"], int(os.environ["DMLC_NUM_WORKER"])
server = None
if task == "0":
    server = tracker.RabitTracker(
        host_ip="0.0.0.0", n_workers=workers, port=int(os.environ["DMLC_TRACKER_PORT"]), sortby="task"
    )
    server.start(workers)

with collective.CommunicatorContext():
    rank, world = collective.get_rank(), collective.get_world_size()
    random = numpy.random.default_rng(rank)
    rows = random.normal(size=(500, 4))
    data = xgboost.DMatrix(rows, label=rows.sum(axis=1))
    history = {}
    model = xgboost.train(
        {"tree_method": "hist", "nthread": 1, "eta": 0.3},
        data,
        num_boost_round=10,
        evals=[(data, "train")],
        evals_result=history,
        verbose_eval=False,
    )
    losses = " ".join(f"{loss:.6f}" for loss in history["train"]["rmse"])
    weights = model.predict(xgboost.DMatrix(numpy.ones((1, 4))))[0]
    print(f"rank {rank} of {world} task {task} weights {weights:.6f} losses {losses}\n", end="", flush=True)

if server:
    server.join()
