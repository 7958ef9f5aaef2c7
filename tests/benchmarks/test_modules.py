"""Benchmarks are run by hand; here they are loaded, so that a renamed part is noticed."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

import benchmarks

MODULES = [
    found.name
    for found in pkgutil.walk_packages(benchmarks.__path__, "benchmarks.")
    if not found.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_it_finds_all_that_it_names(name):
    importlib.import_module(name)
