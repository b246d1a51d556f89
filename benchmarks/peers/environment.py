"""An environment of its own for each peer, made with pip or npm as they are configured here."""

import asyncio
import sys
from pathlib import Path
from shutil import rmtree, which

from benchmarks.peers.child import TOLD_CHARS, PeerError
from benchmarks.peers.store import Peer, folder_bytes

DONE = "installed.txt"
INSTALL_S = 900.0
SYSTEM = "/usr/local/bin:/usr/bin"
TOOLS = ("pip", "setuptools", "wheel", "_distutils_hack", "pkg_resources")
"""What a fresh environment holds and no peer asked for."""


async def environment(peer: Peer, scratch: Path) -> Path:
    """Install a peer into a folder of the scratch folder, unless it is there from an earlier run;
    one that behaves as another shares its folder. PeerError when it cannot be installed."""
    folder = scratch / "environments" / (peer.behaves_as or peer.name)
    done = folder / DONE
    if done.exists() and done.read_text() == "\n".join(peer.packages):
        return folder
    rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if peer.installer == "pip":
        await _run(await _interpreter(peer), "-m", "venv", str(folder))
        await _run(
            str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", *peer.packages
        )
    else:
        npm = which("npm")
        if npm is None:
            raise PeerError("there is no npm on the path")
        await _run(
            npm,
            "install",
            "--silent",
            "--no-audit",
            "--no-fund",
            "--prefix",
            str(folder),
            *peer.packages,
        )
    done.write_text("\n".join(peer.packages))
    return folder


def installed_bytes(folder: Path) -> int:
    """What the packages take that a peer brought: the interpreter and its tools are not counted."""
    places = [*folder.glob("lib/python*/site-packages/*"), *folder.glob("node_modules")]
    mine = [place for place in places if not place.name.split("-")[0].startswith(TOOLS)]
    return sum(folder_bytes(place) if place.is_dir() else place.stat().st_size for place in mine)


async def _interpreter(peer: Peer) -> str:
    """The Python that runs this, or the system's where a peer needs what this one was built
    without."""
    for python in dict.fromkeys((sys.executable, which("python3", path=SYSTEM))):
        if python is None:
            continue
        try:
            await _run(python, "-c", peer.python_must)
        except PeerError:
            continue
        return python
    raise PeerError(f"no Python here can do what it needs: {peer.python_must}")


async def _run(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(INSTALL_S):
            told, _ = await process.communicate()
    except TimeoutError as error:
        process.kill()
        raise PeerError(f"{Path(command[0]).name} was not done after {INSTALL_S:.0f} s") from error
    if process.returncode:
        raise PeerError(
            "could not be installed:"
            f" {' '.join(told.decode(errors='replace')[-TOLD_CHARS:].split())}"
        )
