"""Campaigns by hand; prints what did not hold and exits 1 if anything did not."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from tests.databases import KINDS, places
from tests.faults import campaigns, workload
from tests.faults.campaigns import APIS, KILLS, REFUSALS, SIGNALS, Findings, at_once
from tests.faults.trial import Fault


def main() -> int:
    options = _parser().parse_args()
    started = time.monotonic()
    with places(options.store) as place:
        findings = options.campaign(options, place)
    seconds = time.monotonic() - started
    print(f"{findings.trials} sessions, {findings.faults} faults, {seconds:.0f} s")
    print("\n".join(findings.problems) or "everything held")
    return 1 if findings.problems else 0


def _kills(options: argparse.Namespace, place: Callable[[], str]) -> Findings:
    """Sessions until `count` processes were killed."""
    total = Findings()
    seed = options.seed * 1_000_000
    while total.faults < options.count:
        batch = [(api, seed + number) for number in range(10) for api in options.api]
        total += at_once(
            lambda item: campaigns.kill_at_random(*item, by_clock=True, store=place()), batch
        )
        print(f"{total.faults} kills, {len(total.problems)} problems", file=sys.stderr)
        seed += 10
    return total


def _boundaries(options: argparse.Namespace, place: Callable[[], str]) -> Findings:
    total = Findings()
    steps = workload.BUSY if options.busy else workload.SHORT
    work = {
        **dict.fromkeys(KILLS, campaigns.kill_at),
        **dict.fromkeys(REFUSALS, campaigns.refuse_from),
        **dict.fromkeys(SIGNALS, campaigns.signal_at),
    }
    for api in options.api:
        writes = len(campaigns.boundaries(api, steps, place()))
        for kind in options.kind:
            moments = range(options.first, writes, options.every)
            faults = [Fault(kind, at, unnamed=not options.named) for at in moments]
            found = at_once(
                lambda fault, api=api: work[fault.kind](api, fault, steps, place()), faults
            )
            print(
                f"{api}, {kind}: {writes} writes, {found.faults} faults took effect, "
                f"{len(found.problems)} problems",
                file=sys.stderr,
            )
            total += found
    return total


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    commands = parser.add_subparsers(required=True)
    kills = commands.add_parser("kills", help="busy sessions, killed at random moments")
    kills.add_argument("--count", type=int, default=100, help="how many processes to kill")
    kills.add_argument("--seed", type=int, default=0)
    kills.set_defaults(campaign=_kills)
    writes = commands.add_parser("boundaries", help="a fault at each write of a session")
    writes.add_argument("--every", type=int, default=1, help="only every nth write")
    writes.add_argument("--first", type=int, default=0, help="the first write to try")
    kinds = (*KILLS, *REFUSALS, *SIGNALS)
    writes.add_argument("--kind", choices=kinds, nargs="+", default=KILLS)
    writes.add_argument("--named", action="store_true", help="without unnamed files")
    writes.add_argument("--busy", action="store_true", help="the long task in place of the short")
    writes.set_defaults(campaign=_boundaries)
    for command in (kills, writes):
        command.add_argument("--api", choices=APIS, nargs="+", default=APIS)
        command.add_argument("--store", choices=KINDS, default="files", help="where sessions are")
    return parser


if __name__ == "__main__":
    sys.exit(main())
