"""Which addresses pages are fetched from, whatever they are called."""

from __future__ import annotations

import socket
from ipaddress import ip_address

import pytest

from agentcli.errors import ToolError
from agentcli.web.addresses import Endpoint, blocked_category, look_up, split_url

PUBLIC = ["1.1.1.1", "93.184.215.14", "2606:4700:4700::1111", "2a00:1450:4001:81c::200e"]
REFUSED = {
    "this machine": ["127.0.0.1", "127.8.8.8", "0.0.0.0", "0.1.2.3", "::1", "::"],
    "a private network": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fd00::1"],
    "the network of a provider (CGNAT)": ["100.64.0.1", "100.100.100.200"],
    "the local link, where clouds keep their keys": ["169.254.169.254", "fe80::1", "fe80::1%lo"],
    "a service of the cloud": ["168.63.129.16"],
    "for many (multicast)": ["224.0.0.1", "239.255.255.250", "ff02::1"],
    "an IPv4 address in another form": [
        *("::ffff:127.0.0.1", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b::808:808"),
        *("2002:7f00:1::", "2001:0:53aa::1", "192.88.99.1"),
    ],
    "reserved": [
        *("192.0.0.192", "192.0.2.1", "198.18.0.1", "203.0.113.9", "255.255.255.255"),
        *("2001:db8::1", "fec0::1", "::127.0.0.1", "4000::1", "100::1"),
    ],
}


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are_fetched_from(address):
    assert blocked_category(ip_address(address)) == ""
    assert look_up(address, 443, (), 5) == [Endpoint(ip_address(address), 443)]


@pytest.mark.parametrize(("what", "address"), [(w, a) for w, all in REFUSED.items() for a in all])
def test_other_addresses_are_not(what, address):
    assert blocked_category(ip_address(address)) == what


@pytest.mark.parametrize("host", ["localhost", "0x7f.1", "2130706433", "127.1", "017700000001"])
def test_this_machine_is_known_under_every_name(host):
    with pytest.raises(ToolError, match=r"that is this machine\. .*network\(127\.0\.0\.1:80\)"):
        look_up(host, 80, (), 5)


def test_a_port_that_the_person_opened_is_reached_by_its_own_name_only():
    assert look_up("localhost", 8000, [8000], 5) == [Endpoint(ip_address("127.0.0.1"), 8000)]
    for host, port in (("localhost", 8001), ("127.0.0.2", 8000), ("[::1]".strip("[]"), 8000)):
        with pytest.raises(ToolError, match="this machine"):
            look_up(host, port, [8000], 5)


def test_of_a_name_only_the_public_addresses_are_taken(monkeypatch):
    def answer(host, *_, **__):
        return [(2, 1, 6, "", (each, 0)) for each in ("10.0.0.1", "1.1.1.1", "169.254.169.254")]

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    assert look_up("rebinding.example", 80, (), 5) == [Endpoint(ip_address("1.1.1.1"), 80)]


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "ftp://example.org/", "example.org", "http:///x", "", "http://"),
        *("http://user@example.org/", "https://u:p@example.org/", "http://good.org\\@evil.org/"),
        *("http://example.org/a b", "http://example.org/\r\nHost: x", "http://example.org:99999/"),
        *("http://[::1", "javascript:alert(1)", "data:text/html,x"),
    ],
)
def test_what_is_no_address_of_a_page_is_told(url):
    with pytest.raises(ToolError) as told:
        split_url(url)
    assert told.value.error_id == "bad_url"
