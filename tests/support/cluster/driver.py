"""Driver with a local Ray and two ranks, for tests that kill it: prints the address of Ray, then waits."""

import asyncio
import sys
from pathlib import Path

import ray

from support.cluster.workers import Adder
from turnsmith.cluster.connection import connect
from turnsmith.cluster.group import RankGroup


async def main(logs: Path) -> None:
    group = RankGroup(Adder, 2, "cpu", logs)
    await group.start()
    print(ray.get_runtime_context().gcs_address, flush=True)
    await group.call("wait_for_file", str(logs / "never"))


if __name__ == "__main__":
    connect("", Path(sys.argv[1]))
    asyncio.run(main(Path(sys.argv[1])))
