"""A test that can run alone."""

from dataclasses import dataclass


@dataclass
class Unit:
    program: str
    function: str  # `name` or `name[iteration]`; "" for another test of ctest
    command: tuple  # with {program} and {folder} for paths
    place: int  # in the order in which the program runs its functions
    title: str = ""  # ctest's name of such a test, and its variables
    variables: tuple = ()
    seconds: float = 0.0
    blocks: int = 0  # a bit for each basic block of the library that it runs
    count: int = 0  # of these blocks

    @property
    def name(self):
        return f"{self.program}:{self.function}" if self.function else self.title
