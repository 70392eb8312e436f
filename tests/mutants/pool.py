"""Worker processes. Each has a folder of its own, and enters the sandbox before its first work."""

import itertools
import multiprocessing
import os
import queue
import shutil
import signal
import sys
import traceback

import sandbox
from build import BuildError


class Worker:
    def __init__(self, build, number, state):
        self.build, self.state = build, state
        self.folder = os.path.join(build.own, f"job{number}")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.problem = None

    def enter(self, protect):
        self.problem = sandbox.enter(self.folder, self.build.root) if protect else None

    def run(self, command, variables, seconds, total):
        return sandbox.run(command, self.folder, self.folder, variables, seconds, total)


def _work(worker, protect, questions, answers):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, sandbox.leave)
    worker.enter(protect)
    if worker.problem:
        print(f"mutants: files are not protected: {worker.problem}", file=sys.stderr)
    for function, item in iter(questions.get, None):
        try:
            answers.put((function(worker, item), None))
        except BuildError as error:
            answers.put((None, error))
        except Exception:  # the parent process reports it
            answers.put((None, RuntimeError(traceback.format_exc())))


class Pool:
    def __init__(self, build, jobs):
        self.build, self.jobs = build, jobs

    def each(self, function, items, protect=False):
        return list(self.stream(function, items, protect))

    def stream(self, function, items, protect=True, state=None):
        """Yields function(worker, item) for all items, in any order. Takes an item only when a worker is free, so that
        later items can depend on answers. `protect`: workers write only into their folders."""
        context = multiprocessing.get_context("fork")
        questions, answers = context.Queue(), context.Queue()
        workers, waiting, complete = [], 0, False
        for number in range(self.jobs):
            worker = Worker(self.build, number, state)
            arguments = (worker, protect, questions, answers)
            workers.append(context.Process(target=_work, args=arguments, daemon=True))
            workers[-1].start()
        try:
            items = iter(items)
            for item in itertools.islice(items, self.jobs):
                questions.put((function, item))
                waiting += 1
            while waiting:
                answer, problem = self._receive(answers, workers)
                waiting -= 1
                if problem:
                    raise problem
                for item in itertools.islice(items, 1):
                    questions.put((function, item))
                    waiting += 1
                yield answer
            complete = True
        finally:
            for process in workers:
                questions.put(None) if complete else process.terminate()
            for process in workers:
                process.join()
            questions.cancel_join_thread()

    @staticmethod
    def _receive(answers, workers):
        while True:
            try:
                return answers.get(timeout=5)
            except queue.Empty:
                if not all(process.is_alive() for process in workers):
                    return None, RuntimeError("a worker process ended")
