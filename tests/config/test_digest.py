"""Digests of users' functions: different for different behavior, equal for equal code."""

from __future__ import annotations

import enum
import functools
import types
from textwrap import dedent

import pytest
import torch

from torchair.config.digest import _tokens, code_digest


def define(source: str) -> types.FunctionType:
    """Run a module's source, and return its function ``f``."""
    module = types.ModuleType("users_module")
    exec(compile(dedent(source), "users_module.py", "exec"), module.__dict__)
    function = module.f
    assert isinstance(function, types.FunctionType)
    return function


def digest_of(source: str) -> str:
    return code_digest(define(source))


BASE = """\
    import math
    LIMIT = 3
    TABLE = ("a", 1)
    class Helper:
        FACTOR = 2
        def run(self, x):
            return x + 1
    def helper(x):
        return x * LIMIT
    def f(gm, inputs, config, *, flag=False):
        names = {"add", "mul"}
        return [helper(x) + math.pi for x in gm if x in names] or Helper().run(TABLE)
    """


def test_equal_code_is_equal():
    digest = digest_of(BASE)
    assert digest == digest_of(BASE)
    assert len(digest) == 32
    assert int(digest, 16) >= 0


def test_comments_and_places_do_not_matter():
    moved = BASE.replace("    LIMIT = 3\n", "    # the limit\n\n    LIMIT = 3\n")
    assert moved != BASE
    assert digest_of(moved) == digest_of(BASE)


@pytest.mark.parametrize(
    "old, new",
    [
        ("or Helper", "and Helper"),
        ('"mul"', '"sub"'),
        ("flag=False", "flag=True"),
        ("x in names", "x not in names"),
        ("LIMIT = 3", "LIMIT = 4"),
        ("LIMIT = 3", "LIMIT = 3.0"),
        ('("a", 1)', '("a", True)'),
        ("x * LIMIT", "x + LIMIT"),
        ("x + 1", "x + 2"),
        ("FACTOR = 2", "FACTOR = 3"),
        ("math.pi", "math.e"),
    ],
)
def test_a_change_changes_it(old, new):
    assert BASE.count(old) == 1
    assert digest_of(BASE.replace(old, new)) != digest_of(BASE)


def test_closures():
    source = """\
        def make(value):
            def g():
                return value
            return g
        f = make({value})
        """
    assert digest_of(source.format(value="[1, {'a': 2}]")) == digest_of(source.format(value="[1, {'a': 2}]"))
    assert digest_of(source.format(value="[1, {'a': 2}]")) != digest_of(source.format(value="[1, {'a': 3}]"))
    assert digest_of(source.format(value="{1, 2}")) != digest_of(source.format(value="{1, 3}"))
    assert digest_of(source.format(value="(1,)")) != digest_of(source.format(value="[1]"))


def test_recursion_ends():
    source = """\
        def f(n):
            return g(n - {step}) if n else 0
        def g(n):
            return f(n)
        """
    assert digest_of(source.format(step=1)) == digest_of(source.format(step=1))
    assert digest_of(source.format(step=1)) != digest_of(source.format(step=2))


def test_a_list_that_contains_itself_ends():
    items: list[object] = []
    items.append(items)
    digest = code_digest(functools.partial(print, items))
    assert digest == code_digest(functools.partial(print, items))


def test_partial_and_builtin():
    assert code_digest(functools.partial(print, 1)) == code_digest(functools.partial(print, 1))
    assert code_digest(functools.partial(print, 1)) != code_digest(functools.partial(print, 2))
    assert code_digest(functools.partial(print, 1)) != code_digest(functools.partial(sorted, 1))
    assert code_digest(print) != code_digest(sorted)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Configured:
    """A pass as an object with plain state."""

    def __init__(self, limit: object) -> None:
        self.limit = limit

    def __call__(self, gm: object) -> object:
        return self.limit

    def method(self, gm: object) -> object:
        return self.limit


def test_objects_count_by_their_state():
    assert code_digest(Configured(1)) == code_digest(Configured(1))
    assert code_digest(Configured(1)) != code_digest(Configured(2))
    assert code_digest(Configured(1).method) == code_digest(Configured(1).method)
    assert code_digest(Configured(1).method) != code_digest(Configured(2).method)
    assert code_digest(Configured(Color.RED)) == code_digest(Configured(Color.RED))
    assert code_digest(Configured(Color.RED)) != code_digest(Configured(Color.BLUE))


def test_objects_with_state_elsewhere_count_by_identity():
    first, second = torch.zeros(2), torch.zeros(2)
    assert code_digest(Configured(first)) == code_digest(Configured(first))
    assert code_digest(Configured(first)) != code_digest(Configured(second))
    module = torch.nn.Linear(2, 2)
    assert code_digest(Configured(module)) == code_digest(Configured(module))
    assert code_digest(Configured(module)) != code_digest(Configured(torch.nn.Linear(2, 2)))


def test_the_identity_of_a_dead_object_is_not_used_again():
    class Slotted:
        __slots__ = ("__weakref__", "value")

    old = Slotted()
    digest = code_digest(Configured(old))
    reference, token = _tokens[id(old)]
    new = Slotted()
    # What happens when ``new`` is made at the address of ``old``.
    _tokens[id(new)] = (reference, token)
    assert code_digest(Configured(new)) != digest


def test_uuid_replaces_the_digest():
    class Pass:
        def __init__(self, version: str) -> None:
            self.version = version
            self.tensor = torch.zeros(1)

        def __call__(self, gm: object) -> None: ...

        def uuid(self) -> str:
            return self.version

    assert code_digest(Pass("1")) == code_digest(Pass("1"))
    assert code_digest(Pass("1")) != code_digest(Pass("2"))


def test_a_very_deep_structure_ends():
    chain: list[object] = []
    for _ in range(5000):
        chain = [chain]
    assert code_digest(functools.partial(print, chain)) != code_digest(functools.partial(print, [chain]))
