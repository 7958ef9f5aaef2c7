"""Import a provider's SDK without the hundreds of type modules that a run never touches.

Both SDKs re-export everything from their packages' `__init__`, so `import anthropic` runs some
3,000 modules. Here a package's `__init__` runs only when a name is requested that its own `from
.module import name` lines don't define. A name they do define is fetched from that module alone, as
with PEP 810's lazy imports. Modules that are not packages load as usual.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import re
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any

_RELATIVE_IMPORT = re.compile(r"^from (\.+[\w.]*) import (\([^)]*\)|[^\n(]+)$", re.MULTILINE)
_LOADER = "__lazy_loader__"
_NAMES = "__lazy_names__"


class _LazyPackage(ModuleType):
    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        package = own["__name__"]
        missing = AttributeError(f"module {package!r} has no attribute {name!r}")
        if _LOADER not in own:
            raise missing
        if _NAMES not in own:
            own[_NAMES] = _names_by_origin(own[_LOADER].get_source(package))
        if name in own[_NAMES]:
            module, original = own[_NAMES][name]
            if module.strip("."):
                value = getattr(importlib.import_module(module, package), original)
            else:
                value = importlib.import_module(module + original, package)
            own[name] = value
            return value
        if name.startswith("__") and name != "__all__":
            raise missing
        if importlib.machinery.PathFinder.find_spec(f"{package}.{name}", own["__path__"]):
            return importlib.import_module(f".{name}", package)
        loader = own.pop(_LOADER)
        object.__setattr__(self, "__class__", ModuleType)
        loader.exec_module(self)
        return getattr(self, name)


def _names_by_origin(source: str) -> dict[str, tuple[str, str]]:
    """Map each name that a package imports from its own modules to the module and the name
    there."""
    names = {}
    for module, imported in _RELATIVE_IMPORT.findall(source):
        for item in imported.strip("()").split(","):
            words = item.split("#")[0].split()
            if words and words[0] != "*":
                names[words[-1]] = (module, words[0])
    return names


class _LazyLoader(Loader):
    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return _LazyPackage(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__[_LOADER] = self._loader


class _LazyFinder(MetaPathFinder):
    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] != self._package:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec and spec.loader and spec.submodule_search_locations is not None:
            spec.loader = _LazyLoader(spec.loader)
        return spec


def make_lazy(package: str) -> None:
    """Make imports of `package`, and of everything below it, lazy from now on."""
    if package not in sys.modules:
        sys.meta_path.insert(0, _LazyFinder(package))
