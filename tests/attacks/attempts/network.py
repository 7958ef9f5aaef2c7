"""Ways out of the machine, and to its daemons."""

# ruff: noqa: PTH211

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
from typing import Any

from ._parts import LIMIT_S, attempt, called, first_success, libc


@attempt
def tcp(place: dict[str, Any]) -> object:
    with socket.create_connection(("127.0.0.1", place["tcp"]), timeout=LIMIT_S) as client:
        return client.send(b"tcp")


@attempt
def tcp_v6(place: dict[str, Any]) -> object:
    with socket.create_connection(("::ffff:127.0.0.1", place["tcp"]), timeout=LIMIT_S) as client:
        return client.send(b"tcp6")


@attempt
def tcp_by_bash(place: dict[str, Any]) -> object:
    script = f"exec 3<>/dev/tcp/127.0.0.1/{place['tcp']} && echo by-bash >&3"
    return subprocess.run(["bash", "-c", script], check=True, capture_output=True).returncode


@attempt
def udp(place: dict[str, Any]) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"udp", ("127.0.0.1", place["udp"]))
    # Sent is not arrived: a network of its own takes datagrams and drops them.
    raise OSError("the receiver knows")


@attempt
def dns(place: dict[str, Any]) -> object:
    """A secret can leave as the name that is asked for."""
    question = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + b"\x06secret\x00\x00\x01\x00\x01"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("127.0.0.1", place["udp"]))
        client.send(question)
    raise OSError("the receiver knows")


@attempt
def raw(place: dict[str, Any]) -> object:
    return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).fileno()


@attempt
def ping_socket(place: dict[str, Any]) -> object:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP) as client:
        client.settimeout(LIMIT_S)
        client.sendto(b"\x08\0\0\0\0\x01\0\x01", ("127.0.0.1", 0))
        return client.recv(100).hex()


@attempt
def packet(place: dict[str, Any]) -> object:
    return socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).fileno()


@attempt
def netlink(place: dict[str, Any]) -> object:
    socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 0).bind((0, 0))
    return "bound"


@attempt
def vsock(place: dict[str, Any]) -> object:
    with socket.socket(40, socket.SOCK_STREAM) as client:
        return client.fileno()


@attempt
def io_uring(place: dict[str, Any]) -> object:
    """Its requests pass a filter of system calls by."""
    return called(libc.syscall(425, 8, ctypes.create_string_buffer(120)))


@attempt
def unix_by_path(place: dict[str, Any]) -> object:
    return _unix(place["unix"])


@attempt
def unix_by_link(place: dict[str, Any]) -> object:
    os.symlink(place["unix"], f"{place['workspace']}/socket")
    return _unix(f"{place['workspace']}/socket")


@attempt
def unix_abstract(place: dict[str, Any]) -> object:
    return _unix("\0" + place["abstract"])


@attempt
def unix_datagram(place: dict[str, Any]) -> object:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        return client.sendto(b"datagram", "\0" + place["abstract_datagram"])


@attempt
def unix_datagram_by_path(place: dict[str, Any]) -> object:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
        return client.sendto(b"datagram", place["unix_datagram"])


@attempt
def unix_among_many(place: dict[str, Any]) -> object:
    """However many are covered, one may be left."""
    return first_success(_unix, [f"{place['unix_many']}/{number}" for number in range(260)])


def _unix(address: str) -> object:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(LIMIT_S)
        client.connect(address)
        return client.send(b"unix")
