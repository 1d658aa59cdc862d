#!/usr/bin/env python3
"""A double of flux for machines that have none.

It takes the few commands that Gangline's scripts call, as the manual pages of
flux-broker(1), flux-run(1), flux-exec(1) and flux-R(1) say, and refuses all others.
Brokers really meet: at the address and with the key that their configuration has.
A job's tasks are real processes in the pods that their ranks belong to. There is
no scheduler, no PMI and no shell plugin: a task has its own broker's environment.
"""
import argparse
import base64
import hashlib
import itertools
import json
import os
import queue
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import tomllib


def refuse(why):
    sys.exit(f"the double of flux refuses {' '.join(sys.argv[1:])!r}: {why}")


def parse(arguments, **options):
    parser = argparse.ArgumentParser(prog="flux", allow_abbrev=False)
    for option, keywords in options.items():
        parser.add_argument("-" + option if len(option) == 1 else "--" + option.replace("_", "-"), **keywords)
    parser.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


def hostlist(text):
    """The hosts of "name", "name-[0]" or "name-[0-2]"."""
    stem, first, last = re.fullmatch(r"([^\[\]]+)(?:\[(\d+)(?:-(\d+))?\])?", text).groups()
    return [stem] if first is None else [f"{stem}{i}" for i in range(int(first), int(last or first) + 1)]


def resources(arguments):
    verb, *arguments = arguments
    if verb == "decode":
        if parse(arguments, count={}).count != "core" or json.load(sys.stdin) != {"local": True}:
            refuse("it counts cores of --local only")
        print(1)
        return
    a = parse(arguments, local={"action": "store_true"}, hosts={}, cores={}, gpus={})
    if "0-0" in (a.cores, a.gpus):
        refuse("0-0 is no range")
    print(json.dumps({"local": True} if a.local else {"hosts": hostlist(a.hosts), "cores": a.cores, "gpus": a.gpus}))


class Peer:
    """Messages as lines of JSON over a socket, which several threads may send."""

    def __init__(self, sock):
        self.file, self.lock = sock.makefile("rw"), threading.Lock()

    def send(self, message):
        with self.lock:
            self.file.write(json.dumps(message) + "\n")
            self.file.flush()

    def receive(self):
        line = self.file.readline()
        return json.loads(line) if line else None


def perform(order):
    """Run the order's command once for each of its ranks, and report."""
    tasks, report = [], {"id": order["id"]}
    for rank in order["ranks"]:
        env = dict(os.environ, FLUX_URI=order["uri"], FLUX_TASK_RANK=str(rank), FLUX_JOB_SIZE=str(order["size"]))
        try:
            tasks.append(subprocess.Popen(order["command"], env=env, stdin=subprocess.DEVNULL,
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        except OSError as error:
            return report | {"status": 127, "output": base64.b64encode(f"{error}\n".encode()).decode()}
    output = b"".join(t.communicate()[0] for t in tasks)
    status = max(128 - t.returncode if t.returncode < 0 else t.returncode for t in tasks)
    return report | {"status": status, "output": base64.b64encode(output).decode()}


def broker(arguments):
    a = parse(arguments, config_path={"required": True}, S={"action": "append", "default": []})
    attributes = dict(s.split("=", 1) if "=" in s else (s, "") for s in a.S)
    unknown = set(attributes) - {"tbon.topo", "rundir", "statedir", "local-uri", "log-stderr-mode", "broker.rc2_none"}
    if unknown or "FLUX_URI" in os.environ or not os.path.isdir(attributes["rundir"]):
        refuse(f"attributes {unknown}, FLUX_URI, or no rundir")
    with open(os.path.join(a.config_path, "broker.toml"), "rb") as file:
        config = tomllib.load(file)
    with open(config["resource"]["path"]) as file:
        r = json.load(file)
    boot = config["bootstrap"]
    hosts = [name for entry in boot["hosts"] for name in hostlist(entry["host"])]
    if hosts != r["hosts"]:
        refuse(f"hosts {hosts}, but resources of {r['hosts']}")
    if stat.S_IMODE(os.stat(boot["curve_cert"]).st_mode) & 0o077:
        refuse("others can read the key")
    with open(boot["curve_cert"], "rb") as file:
        key = hashlib.sha256(file.read()).hexdigest()
    rank, lead = hosts.index(socket.gethostname()), boot["hosts"][0]
    if rank == 0:
        lead_broker(a.command, attributes, len(hosts), lead["bind"], key)
    else:
        follow(rank, lead["connect"], key)


def follow(rank, address, key):
    host, port = address.removeprefix("tcp://").split(":")
    end = time.monotonic() + 30
    while True:
        try:
            peer = Peer(socket.create_connection((host, int(port))))
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
    peer.send({"rank": rank, "key": key})
    while (order := peer.receive()) != {"end": True}:
        if order is None:
            sys.exit("the lead is lost")
        threading.Thread(target=lambda order: peer.send(perform(order)), args=(order,), daemon=True).start()


def lead_broker(command, attributes, size, bind, key):
    listener = socket.create_server(("", int(bind.removeprefix("tcp://*:"))))
    peers = {}
    while len(peers) < size - 1:
        peer = Peer(listener.accept()[0])
        hello = peer.receive()
        if hello["key"] != key:
            refuse("a follower has another key")
        peers[hello["rank"]] = peer

    uri = attributes["local-uri"]
    local = socket.socket(socket.AF_UNIX)
    local.bind(uri.removeprefix("local://"))
    local.listen()
    numbers, waiting = itertools.count(), {}

    def collect(peer):
        while answer := peer.receive():
            waiting.pop(answer["id"]).put(answer)

    for peer in peers.values():
        threading.Thread(target=collect, args=(peer,), daemon=True).start()

    def serve(client):
        request, answers = client.receive(), queue.Queue()
        each = request["tasks"]
        if request["nodes"] not in (None, size):
            return client.send({"status": 1, "output": ""})
        for node in range(size):
            ranks = list(range(node * each, (node + 1) * each))
            order = {"id": next(numbers), "ranks": ranks, "size": size * each, "uri": uri, "command": request["command"]}
            if node:
                waiting[order["id"]] = answers
                peers[node].send(order)
            else:
                threading.Thread(target=lambda order: answers.put(perform(order)), args=(order,), daemon=True).start()
        got = [answers.get() for _ in range(size)]
        client.send({"status": max(x["status"] for x in got), "output": "".join(x["output"] + "\n" for x in got)})

    def accept():
        while True:
            threading.Thread(target=serve, args=(Peer(local.accept()[0]),), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    if not command and "broker.rc2_none" not in attributes:
        refuse("without a command or a terminal it needs broker.rc2_none")
    status = subprocess.call(command, env=dict(os.environ, FLUX_URI=uri)) if command else signal.pause()
    for peer in peers.values():
        peer.send({"end": True})
    sys.exit(status)


def request(nodes, tasks, command):
    """Have the instance's brokers run a command."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(os.environ["FLUX_URI"].removeprefix("local://"))
    peer = Peer(sock)
    peer.send({"nodes": nodes, "tasks": tasks, "command": command})
    answer = peer.receive()
    for part in answer["output"].split("\n"):
        sys.stdout.buffer.write(base64.b64decode(part))
    sys.stdout.flush()
    sys.exit(answer["status"])


def run(arguments):
    a = parse(arguments, N={"type": int}, n={"type": int}, g={"type": int}, exclusive={"action": "store_true"},
              o={"action": "append"}, env_remove={}, env={})
    expected = (True, ["cpu-affinity=off"], "*", "FLUX_SHELL_RC_PATH")
    if (a.exclusive, a.o, a.env_remove, a.env) != expected or a.n % a.N or a.command[:1] != ["--"]:
        refuse("these are not the arguments of a native instance")
    gpus = [g for g in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if g]
    if len(gpus) != (a.g or 0) * a.n // a.N:
        refuse(f"-g is for each task, of which each node has {a.n // a.N}, and it has the GPUs {gpus}")
    request(a.N, a.n // a.N, a.command[1:])


def execute(arguments):
    request(None, 1, parse(arguments, noinput={"action": "store_true"}).command)


def main():
    commands = {"R": resources, "broker": broker, "run": run, "exec": execute}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        refuse("it knows no such command")
    commands[sys.argv[1]](sys.argv[2:])


main()
