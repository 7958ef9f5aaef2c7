"""What is learned of a server: what it says of its models, and what its refusals taught.

Only local servers are asked, and hosts that are not known to be a provider's: for the models of the
others there is the catalogue. A server that is slow, or answers something else, has said nothing.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from agentcli import __version__
from agentcli.llm.connections import is_local
from agentcli.llm.provider import Ask, Facts, Get

if TYPE_CHECKING:
    import httpx2

    from agentcli.llm.wire_protocol import Endpoint

_DISCOVERY_S = 0.2
_LIMIT_S = 1.0
"""For each of two or three small answers, while the SDK is being imported."""
_PATIENCE_S = 3.0
"""The longest wait for all answers of a server."""
_LARGEST = 4_000_000
log = logging.getLogger(__name__)
_NO_CHAT = (
    r"(?i)embed|rerank|(^|[/_-])(bge|gte|e5|minilm|tts)([/_.:-]|$)|whisper|moderation|dall-e"
    r"|-image|transcri|-ocr(-|$)"
)
_WINDOWS = (
    *("max_model_len", "context_length", "context_window", "max_context_length"),
    *("max_input_tokens", "inputTokenLimit"),
)
"""Members of an entry in a list of models: of vLLM and SGLang; OpenRouter, Together and Fireworks;
Groq; Mistral; Anthropic; Google."""
_asked: dict[tuple[str, str], Future[Facts]] = {}
_lock = threading.Lock()
_KEPT_S = 7 * 24 * 3600
"""A server may learn in the meantime what it refused."""
_LARGEST_FINDING = 100_000


def chats(model: str, kind: object = None) -> bool:
    """Whether a model can be talked with, by its id and what the server calls its kind."""
    return kind not in ("embedding", "embeddings", "rerank") and not re.search(_NO_CHAT, model)


def entries(listing: object, member: str = "data") -> list[Mapping[str, Any]]:
    """Return the entries of a list of models; none if it is something else."""
    found = listing.get(member) if isinstance(listing, Mapping) else None
    return [each for each in found or () if isinstance(each, Mapping)]


def entry_of(model: str, found: Sequence[Mapping[str, Any]], *names: str) -> Mapping[str, Any]:
    """Return the entry whose `names` include the model's id, of which Ollama lets `:latest` be left
    out; empty if there is none."""
    wanted = {model, f"{model}:latest"}
    return next((each for each in found if wanted & {each.get(name) for name in names}), {})


def size(entry: Mapping[str, Any], *names: str) -> int:
    """Return the first of the numbers in `entry` under `names`; 0 if there is none."""
    numbers = (entry.get(name) for name in names)
    return next((n for n in numbers if isinstance(n, int) and n > 0), 0)


def listed(get: Get, model: str) -> Facts | None:
    """Ask a server whose list of models has their windows; None if it may be one that says more
    elsewhere."""
    entry = entry_of(model, entries(get("models")), "id")
    window = size(entry, *_WINDOWS)
    # Owners of models by the lists of llama.cpp, Ollama and LM Studio.
    says_more = entry.get("owned_by") in (None, "llamacpp", "library", "organization_owner")
    return Facts(window) if window or not says_more else None


def models_at(base_url: str) -> list[str]:
    """Return the ids of a local server's models; none when it does not answer in time."""
    try:
        return [
            each["id"]
            for each in entries(_local_getter(base_url, _DISCOVERY_S)("models"))
            if isinstance(each.get("id"), str) and chats(each["id"], each.get("type"))
        ]
    except OSError:
        return []


def loaded_at(base_url: str, ask: Ask) -> Sequence[str]:
    """Return the ids of the models that a local server has in memory; none if it does not say."""
    try:
        facts = ask(_local_getter(base_url, _DISCOVERY_S), "")
    except OSError:
        return ()
    return facts.loaded if facts else ()


def _local_getter(base_url: str, limit_s: float, headers: Mapping[str, str] | None = None) -> Get:
    """Return a way to ask a server of this machine. It takes a tenth of the time of one that goes
    through the SDK's HTTP client."""
    import http.client

    address = urlsplit(base_url)

    def get(path: str) -> Any:
        connection = http.client.HTTPConnection(
            address.hostname or "127.0.0.1", address.port, timeout=limit_s
        )
        try:
            connection.request("GET", _target(base_url, path), headers=headers or {})
            answer = connection.getresponse()
            return (
                json.loads(answer.read(_LARGEST)) if answer.status == http.HTTPStatus.OK else None
            )
        except http.client.HTTPException as error:
            raise OSError(str(error)) from error
        except ValueError:
            return None
        finally:
            connection.close()

    return get


def begin(endpoint: Endpoint, asks: Sequence[Ask]) -> Future[Facts]:
    """Ask an endpoint of its model in the background, in each way of `asks` until one fits; once in
    this process, unless the model is not in memory yet."""
    key = endpoint.base_url, endpoint.model
    with _lock:
        before = _asked.get(key)
        if before is not None and not (before.done() and before.result().may_change):
            return before
        future = _asked[key] = Future[Facts]()

    def ask() -> None:
        found = facts_at(endpoint, [endpoint.model], asks)
        future.set_result(found.get(endpoint.model, Facts()))

    threading.Thread(target=ask, daemon=True).start()
    return future


def facts_of(base_url: str, model: str) -> Facts | None:
    """Return what the server said, for which this may wait a little; None if it was not asked."""
    future = _asked.get((base_url, model))
    if future is None:
        return None
    try:
        return future.result(_PATIENCE_S)
    except TimeoutError:
        return Facts()


def facts_at(endpoint: Endpoint, models: Sequence[str], asks: Sequence[Ask]) -> Mapping[str, Facts]:
    """Return what a server says of its models, of each in the first way of `asks` that fits; those
    of which it says nothing are left out."""
    facts: dict[str, Facts] = {}
    key = {"authorization": f"Bearer {endpoint.api_key}"} if endpoint.api_key else {}
    headers = {**key, **endpoint.headers}
    try:
        with ExitStack() as open_until_asked:
            if endpoint.base_url.startswith("http:") and is_local(endpoint.base_url):
                get = _local_getter(endpoint.base_url, _LIMIT_S, headers)
            else:
                client = open_until_asked.enter_context(_client(endpoint))
                get = _getter(client, endpoint.base_url, headers)
            # What it says of one, it often says of all.
            get = cache(get)
            for model in models:
                found = (ask(get, model) for ask in asks)
                if said := next((each for each in found if each is not None), None):
                    facts[model] = said
    except Exception:
        # Whatever a server answers, the work goes on as if it had not been asked.
        log.debug("%s was asked in vain", endpoint.base_url, exc_info=True)
    return facts


def _client(endpoint: Endpoint) -> httpx2.Client:
    from agentcli.llm.bounded_http import http_client
    from agentcli.llm.wire_protocol import ReplySize

    hurried = replace(endpoint, connect_timeout_s=_LIMIT_S, read_timeout_s=_LIMIT_S)
    return http_client(hurried, ReplySize(_LARGEST))


def _getter(client: httpx2.Client, base_url: str, headers: Mapping[str, str]) -> Get:
    import httpx2

    def get(path: str) -> Any:
        url = urlunsplit((*urlsplit(base_url)[:2], _target(base_url, path), "", ""))
        try:
            answer = client.get(url, headers=headers)
            return answer.json() if answer.status_code == httpx2.codes.OK else None
        except httpx2.HTTPError as error:
            raise OSError(str(error)) from error
        except ValueError:
            return None

    return get


def _target(base_url: str, path: str) -> str:
    """Return where `path` is on the host of `base_url`."""
    address = urlsplit(base_url)
    path, _, query = path.partition("?")
    # Anthropic's clients append the version themselves.
    below = address.path.rstrip("/") or "/v1"
    whole = path if path[0] == "/" else f"{below}/{path}"
    return urlunsplit(("", "", whole, query or address.query, ""))


@dataclass(frozen=True)
class Findings:
    """What refusals taught of endpoints, kept in a folder between sessions. A finding holds for the
    version of the program that made it: it stands in the place of a whole row of a table, of which
    the next version may know more. One that can't be read or written counts as unknown: the server
    then says it again."""

    folder: Path

    def of(self, endpoint: Endpoint) -> Mapping[str, Any]:
        """Return the changes of an endpoint's traits that are known."""
        try:
            with open(self._path(endpoint), "rb") as file:
                fresh = os.fstat(file.fileno()).st_mtime > time.time() - _KEPT_S
                found = json.loads(file.read(_LARGEST_FINDING)) if fresh else {}
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(found, dict) or found.get("version") != __version__:
            return {}
        changes = found.get("changes")
        return changes if isinstance(changes, dict) else {}

    def keep(self, endpoint: Endpoint, changes: Mapping[str, Any]) -> None:
        """Add `changes` to what is known of an endpoint."""
        path = self._path(endpoint)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        changes = {**self.of(endpoint), **changes}
        kept = {"version": __version__, "model": endpoint.name, "changes": changes}
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.write_text(json.dumps(kept), encoding="utf-8")
            partial.replace(path)
        except OSError as error:
            log.warning("what %s refuses can't be kept: %s", endpoint.name, error)

    def _path(self, endpoint: Endpoint) -> Path:
        # An address may hold a secret, so its hash stands for it.
        named = f"{endpoint.base_url}\n{endpoint.provider}\n{endpoint.model}"
        return self.folder / f"{sha256(named.encode(errors='replace')).hexdigest()[:24]}.json"
