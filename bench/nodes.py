"""Starts a program on several nodes: processes of this machine, or nodes of an emulated network (network.c).

Every process that this module starts ends with Python, and so does the network: also after Ctrl-C, an error or a
kill."""

import ctypes
import os
import pathlib
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT_MAY_RUN = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}  # for Open MPI
PR_SET_PDEATHSIG = 1
NETWORK_FILE, NAME_FILE = 100, 200  # network.c
READY = 10  # seconds


class Failure(Exception):
    """A program or a network failed; the text says why."""


class ThisMachine:
    """All processes on this machine. They exchange messages through shared memory, or through the loopback device."""

    device, address = "lo", "127.0.0.1"

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        pass

    def inside(self, _node):
        """Returns the words in front of a command that runs on a node."""
        return []

    def mpirun(self, processes):
        return ["mpirun", "-n", processes, "--oversubscribe", "--bind-to", "none"]


class Network:
    """An emulated network with a node for each process. Use it in a with statement."""

    device, address = "net0", "10.77.0.1"

    def __init__(self, program, nodes, rate, delay):
        self.command = [str(program), "--nodes", str(nodes), "--rate", str(rate), "--delay", str(delay)]

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        # Not with the children's signals: it ends when its input ends, after the programs on the nodes.
        self.process = start(self.command, stdin=subprocess.PIPE, start_new_session=True)
        try:
            self.pid = int(first_line(self.process).split()[0].partition("=")[2])
            self.write_agent()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        self.process.terminate()
        stop(self.process, READY)
        self.folder.cleanup()

    def inside(self, node):
        files = f"/proc/{self.pid}/fd"
        return ["nsenter", f"--net={files}/{NETWORK_FILE + node}", f"--uts={files}/{NAME_FILE + node}"]

    def write_agent(self):
        """Writes the program that mpirun starts instead of ssh: AGENT ADDRESS COMMAND."""
        self.agent = pathlib.Path(self.folder.name, "agent")
        files = f"/proc/{self.pid}/fd"
        self.agent.write_text(
            "#!/bin/sh\n"
            "node=$((${1##*.} - 1))\n"
            "shift\n"
            f'exec nsenter --net={files}/$(({NETWORK_FILE} + node)) --uts={files}/$(({NAME_FILE} + node)) sh -c "$*"\n'
        )
        self.agent.chmod(0o700)

    def mpirun(self, processes):
        hosts = ",".join(f"10.77.0.{node + 1}:1" for node in range(processes))
        command = [*self.inside(0), "mpirun", "-n", processes, "-host", hosts, "--bind-to", "none"]
        for name, value in (
            ("plm_rsh_agent", self.agent),
            ("btl", "self,tcp"),
            ("btl_tcp_if_include", self.device),
            ("oob_tcp_if_include", self.device),
            ("orte_tmpdir_base", self.folder.name),
        ):
            command += ["--mca", name, value]
        return command


# -- processes --


def end_with_exit():
    """Lets SIGTERM and SIGHUP end Python as sys.exit does, so that with statements end their networks."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))


def end_with_python():
    """Lets the kernel end the calling child when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def start(command, **options):
    try:
        return subprocess.Popen(
            [str(word) for word in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
    except OSError as error:
        raise Failure(f"{command[0]}: {error.strerror}") from error


def stop(process, patience):
    """Waits for the end of a process; ends it after `patience` seconds."""
    for end in (process.terminate, process.kill):
        try:
            process.communicate(timeout=patience)
            return
        except subprocess.TimeoutExpired:
            end()
    process.wait()


def first_line(process):
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        line = process.stdout.readline() if selector.select(READY) else ""
    if line:
        return line
    process.kill()
    raise Failure((process.stderr.read().strip().splitlines() or ["the network did not start"])[-1])


def run_together(commands, limit):
    """Runs (command, environment) pairs at the same time and returns what the first printed. Raises Failure if one
    fails, or if they take longer than `limit` seconds."""
    end = time.monotonic() + limit
    running = []
    try:
        for command, environment in commands:
            running.append(
                start(
                    command,
                    env={**os.environ, **environment},
                    stdin=subprocess.DEVNULL,
                    preexec_fn=end_with_python,
                )
            )
        printed = [process.communicate(timeout=max(0.1, end - time.monotonic())) for process in running]
    except subprocess.TimeoutExpired:
        raise Failure(f"took more than {limit} s") from None
    finally:
        for process in running:
            if process.poll() is None:
                process.terminate()
        for process in running:
            stop(process, READY)
    for (command, _), process, (_, problem) in zip(commands, running, printed):
        if process.returncode:
            raise Failure(reason(command, problem) or f"ended with {process.returncode}")
    return printed[0][0]


def reason(command, printed):
    """Returns the line that tells why a command failed: the program's own, or the last one."""
    names = tuple(f"{os.path.basename(str(word))}: " for word in command)
    lines = [line for line in printed.splitlines() if line.strip(" -")]
    return ([line for line in lines if line.startswith(names)] or lines or [""])[-1]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def commands_of_ranks(place, processes, command):
    """Returns (command, environment) pairs for run_together: one process on each node, as torch.distributed expects."""
    port = str(free_port())
    return [
        (
            [*place.inside(rank), *command],
            {
                "RANK": str(rank),
                "WORLD_SIZE": str(processes),
                "MASTER_ADDR": place.address,
                "MASTER_PORT": port,
                "GLOO_SOCKET_IFNAME": place.device,
            },
        )
        for rank in range(processes)
    ]


def commands_of_mpi(place, processes, command):
    """Returns the same for a program that uses MPI."""
    return [([*place.mpirun(processes), *command], ROOT_MAY_RUN)]
