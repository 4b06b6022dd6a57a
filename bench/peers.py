"""Error, time and memory of other makers of synthetic rows, ε = 1 and δ = 1e-9: one run each, 20 CPU minutes at most.

    python bench/peers.py                                        every peer on every dataset: hours
    python bench/peers.py --keep FILE --within 60                the same in pieces: FILE keeps each finished line
    python bench/peers.py --keep FILE --peer mbi:mst --data adult
    python bench/peers.py --keep FILE --within 0 --ours auto     what FILE has, and populace's lines made anew

mbi (with the MST and AIM loops of peers/mbi_synth.py on it; mst64 is mst in double precision), dpmm and smartnoise run
one after the other, each in its own environment (make bench-env) as one process with one thread. All read the same
codes and the same public sizes of columns. Errors are those of bench/error.py; times and memory are those of the child
process, imports included. A line without an error says why: over the cap, failed with its last words, or not run. The
cap is on CPU time, which other work on the machine lengthens little.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from error import SHARED, environment, here, once, score

HERE = Path(__file__).resolve().parent
DATA = ["nltcs", "adult", "msnbc", "nist2020-acs", "loans", "stroke"]
PEERS = ["mbi:mst", "mbi:mst64", "smartnoise:mst", "dpmm:mst", "mbi:aim", "dpmm:aim"]
PACKAGES = {
    "mbi": ["mbi", "jax"],
    "dpmm": ["dpmm", "numpy"],
    "smartnoise": ["smartnoise-synth", "mbi", "jax"],
}
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}

Line = dict[str, Any]


def files(data: str) -> tuple[Path, Path]:
    folder = SHARED / "data" / data
    (rows,) = folder.glob("*.parquet")
    return rows, folder / "domain.json"


def interpreter(name: str) -> Path:
    return HERE.parent / ".bench" / name / "bin" / "python"


def run(peer: str, data: str, *, epsilon: str, delta: str, cap: int) -> Line:
    """Run one peer in a child process and score its rows, or say why there are none."""
    name, method = peer.split(":")
    if not interpreter(name).exists():
        return {"why": "failed: no environment (make bench-env)"}
    rows, domain = files(data)
    with tempfile.TemporaryDirectory() as place:
        out, said = Path(place) / "rows.parquet", Path(place) / "said.txt"
        words = [str(interpreter(name)), str(HERE / "peers" / f"{name}_synth.py"), str(rows), str(domain)]
        with said.open("wb") as file:
            begun = time.perf_counter()
            child = subprocess.Popen(
                [*words, epsilon, delta, method, str(out)],
                stdout=file,
                stderr=file,
                env=environment() | ONE_THREAD,
            )
            status, used = ended(child.pid, cap=cap)
        line: Line = {
            "wall_s": time.perf_counter() - begun,
            "cpu_s": used.ru_utime + used.ru_stime,
            "peak_mb": used.ru_maxrss / 1024,
        }
        if os.WIFSIGNALED(status) and line["cpu_s"] >= cap:
            return line | {"why": f"over {cap / 60:g} min"}
        if status:
            return line | {"why": f"failed: {last_words(said)}"}
        told = score(rows, out, domain=domain)
        fitting = re.search(r"fitting took ([\d.]+) s", said.read_text(errors="replace"))
        line |= {} if fitting is None else {"fit_s": float(fitting[1])}
        return line | {"pairs": told["tv2"], "triples": told["tv3"]}


def ended(child: int, *, cap: int) -> tuple[int, resource.struct_rusage]:
    """Wait for a child, stop it when all its threads together have used `cap` CPU seconds, and return how it ended.

    The system's own limit is not used: it has let JAX's threads run on.
    """
    ticks = os.sysconf("SC_CLK_TCK")
    while True:
        pid, status, used = os.wait4(child, os.WNOHANG)
        if pid:
            return status, used
        # After the name, which may hold blanks, times are the 12th and 13th field.
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        if (int(fields[11]) + int(fields[12])) / ticks > cap:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def last_words(said: Path) -> str:
    spoken = [text.strip() for text in said.read_text(errors="replace").splitlines() if text.strip()]
    return spoken[-1][:100] if spoken else "silently"


def run_ours(method: str, data: str, *, epsilon: str, delta: str) -> Line:
    rows, domain = files(data)
    try:
        return dict(once(rows, schema=domain, method=method, epsilon=epsilon, delta=delta))
    except SystemExit as end:
        return {"why": f"failed: {end}"}


def versions() -> str:
    found = []
    for name, packages in PACKAGES.items():
        if not interpreter(name).exists():
            found.append(f"{name} missing")
            continue
        ask = f"from importlib.metadata import version as v; print(', '.join(p + ' ' + v(p) for p in {packages}))"
        told = subprocess.run([str(interpreter(name)), "-c", ask], check=True, capture_output=True, text=True)
        found.append(f"{name}: {told.stdout.strip()}")
    return "; ".join(found)


def read(keep: Path | None) -> dict[tuple[str, str], Line]:
    """Return the kept lines by dataset and peer; of two for the same, the later."""
    if keep is None or not keep.exists():
        return {}
    lines = [json.loads(text) for text in keep.read_text().splitlines()]
    return {(line["data"], line["peer"]): line for line in lines}


def show(lines: dict[tuple[str, str], Line], *, peers: list[str], data: list[str]) -> None:
    print("data          who         method  pairs    triples  wall s   cpu s  peak MB")
    for name in data:
        for peer in peers:
            line = lines.get((name, peer), {"why": "not run"})
            who, method = peer.split(":")
            error = f"{line['pairs']:.5f}  {line['triples']:.5f}" if "pairs" in line else f"{line['why']:16}"
            cost = (
                f"  {line['wall_s']:6.0f}  {line['cpu_s']:6.0f}  {line['peak_mb']:7.0f}"
                if "wall_s" in line
                else ""
            )
            print(f"{name:13} {who:11} {method:6}  {error}{cost}".rstrip())


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--data", nargs="+", default=DATA)
    ask.add_argument("--peer", nargs="*", default=PEERS, help="peers to run, as NAME:METHOD")
    ask.add_argument("--ours", nargs="*", default=[], help="methods of populace to run, kept lines or not")
    ask.add_argument(
        "--keep", type=Path, help="where each finished line is kept; lines there are not run again"
    )
    ask.add_argument("--epsilon", default="1")
    ask.add_argument("--delta", default="1e-9")
    ask.add_argument("--cap", type=int, default=1200, help="CPU seconds that a peer may take")
    ask.add_argument(
        "--within", type=float, default=float("inf"), help="minutes after which no peer is begun"
    )
    ask.add_argument("--note", default="", help="a word about the machine, for the head of the result")
    told = ask.parse_args()
    lines, begun = read(told.keep), time.monotonic()
    setting = {"epsilon": told.epsilon, "delta": told.delta}
    if any(line["setting"] != setting for line in lines.values()):
        raise SystemExit(f"{told.keep} has lines of another epsilon or delta; keep these elsewhere")

    def finish(data: str, peer: str, line: Line) -> None:
        head = {"data": data, "peer": peer, "date": f"{datetime.now(UTC).date()}", "setting": setting}
        lines[data, peer] = head | {"note": told.note} | line
        print(json.dumps(lines[data, peer]), file=sys.stderr, flush=True)
        if told.keep is not None:
            with told.keep.open("a") as file:
                file.write(json.dumps(lines[data, peer]) + "\n")

    for method in told.ours:
        for data in told.data:
            finish(data, f"populace:{method}", run_ours(method, data, **setting))
    for peer in told.peer:
        for data in told.data:
            if (data, peer) not in lines and time.monotonic() - begun < 60 * told.within:
                finish(data, peer, run(peer, data, **setting, cap=told.cap))
    dates = sorted({line["date"] for line in lines.values()})
    print(f"{here()}, epsilon {told.epsilon}, delta {told.delta}; lines of {' and '.join(dates) or 'no day'}")
    print(versions())
    for note in sorted({line["note"] for line in lines.values()} - {""}):
        print(note)
    others = sorted({peer for _, peer in lines} - set(PEERS))
    show(lines, peers=others + PEERS, data=DATA)


if __name__ == "__main__":
    main()
