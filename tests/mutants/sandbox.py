"""Runs test programs of mutants: with limits of time, memory and file sizes, and where the files of the system are read-only."""

import ctypes
import os
import re
import resource
import select
import signal
import subprocess
import time
from dataclasses import dataclass

NEW_MOUNTS, NEW_USER = 0x00020000, 0x10000000
READ_ONLY, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 32, 4096, 16384, 1 << 18
SUBREAPER = 36
MEMORY, TEMPORARY = 4 << 30, b"size=512m"

running = []  # the present test
libc = ctypes.CDLL(None, use_errno=True)


def _mount(source, target, flags, kind=None, options=None):
    result = libc.mount(os.fsencode(source), os.fsencode(target), kind, ctypes.c_ulong(flags), options)
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)


def enter(folder, read_only):
    """From now on this process and its children have their own small /tmp, which is also `folder`/tmp, and cannot write to
    `read_only`, except in `folder`. Returns the reason if the system does not allow this; then nothing is protected."""
    libc.prctl(SUBREAPER, 1, 0, 0, 0)
    os.makedirs(os.path.join(folder, "tmp"), exist_ok=True)
    try:
        user, group = os.getuid(), os.getgid()
        if libc.unshare(NEW_MOUNTS | (NEW_USER if user else 0)):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "unshare")
        if user:
            for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
                with open(f"/proc/self/{name}", "w") as file:
                    file.write(text)
        _mount("none", "/", RECURSIVE | PRIVATE)
        _mount(read_only, read_only, BIND | RECURSIVE)
        _mount(folder, folder, BIND)
        _mount("none", read_only, BIND | REMOUNT | READ_ONLY)
        temporary = os.path.join(folder, "tmp")
        _mount("tmpfs", temporary, 0, b"tmpfs", TEMPORARY)
        if read_only.startswith("/tmp/"):
            inside = temporary + read_only[len("/tmp") :]
            os.makedirs(inside)
            _mount(read_only, inside, BIND | RECURSIVE)
        _mount(temporary, "/tmp", BIND | RECURSIVE)
    except OSError as error:
        return str(error)
    return None


def environment(folder, more):
    home = os.path.join(folder, "tmp")
    keep = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return {**keep, "HOME": home, "TMPDIR": "/tmp", "XDG_CACHE_HOME": home, **more}


@dataclass
class Outcome:
    verdict: str  # "passed", "failed", "timeout", "skipped"
    detail: str
    seconds: float  # of processor time


def _descendants():
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        return [int(pid) for pid in file.read().split()]


def _end_all(process):
    """Ends the program and what it left behind. Orphans have become children of this process (SUBREAPER)."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
    for _ in range(100):
        remaining = _descendants()
        if not remaining:
            break
        for pid in remaining:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass


def leave(*_):
    """Handles SIGTERM: ends the present test and this process, at once."""
    for process in running:
        _end_all(process)
    os._exit(1)


def run(command, folder, cwd, variables, seconds, total):
    """Runs tests; `seconds` is the normal processor time of the slowest, `total` of all. Ends them at the first line
    "not ok". The limit of processor time holds for each process; that of real time is wide, for busy machines."""
    limit = int(5 * seconds + 3)
    wall = 20 * total + 20

    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 2))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    variables = environment(folder, {"CK_DEFAULT_TIMEOUT": str(int(wall)), "CK_VERBOSITY": "silent", **variables})
    process = subprocess.Popen(
        command, cwd=cwd, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True, preexec_fn=limits,
    )  # fmt: skip
    running.append(process)
    verdict, detail = _watch(process, time.monotonic() + wall)
    _end_all(process)
    running.remove(process)
    process.stdout.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Outcome(verdict, detail, used)


def _watch(process, end):
    """Reads the output until the program ends, fails or takes too long. Returns the verdict and a detail."""
    text, output = b"", process.stdout.fileno()
    while True:
        left = end - time.monotonic()
        if left <= 0:
            return "timeout", "no end"
        if not select.select([output], [], [], left)[0]:
            continue
        part = os.read(output, 1 << 16)
        if not part:
            break
        text = text[-4000:] + part
        failed = re.search(rb"^not ok .*\n", text, re.MULTILINE)
        if failed:
            detail = failed[0].decode("utf-8", "replace").strip()
            return "timeout" if f"signal {int(signal.SIGXCPU)} " in detail else "failed", detail
    try:
        status = process.wait(max(1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        return "timeout", "no end"
    if status in (0, 77):
        return "passed" if status == 0 else "skipped", ""
    detail = f"exit status {status}: {text[-200:].decode('utf-8', 'replace')}"
    return "timeout" if status in (-signal.SIGXCPU, -signal.SIGKILL) else "failed", detail
