"""What the project wants to reach, and whether this run reached it."""

from dataclasses import dataclass

# Least ratio of the best peer's time to bed's, by n.
RATIOS = ((4, 16, 10.0), (24, 64, 8.0))
# Batches from which on throughput counts.
THROUGHPUT_BATCH = 16384
# Share of the bandwidth of a device copy at n ≤ 4, and the batch it is asked for.
SHARE, SHARE_MAX_N, SHARE_BATCH = 0.6, 4, 4194304
# Milliseconds on an H200, float32: n and batch to time.
H200_MS = {
    (4, 262144): 0.02,
    (8, 262144): 0.17,
    (16, 262144): 0.72,
    (32, 262144): 6.7,
    (48, 16384): 1.3,
    (64, 16384): 4.3,
}


@dataclass(frozen=True)
class Verdict:
    """One target: "met", "not met" or "not measured", and the numbers behind it."""

    target: str
    state: str
    detail: str


def verdicts(cells: list[dict], device: str) -> list[Verdict]:
    """One line for each target."""
    return [
        *(ratio(cells, *each) for each in RATIOS),
        share(cells),
        never_slower(cells),
        *times(cells, device),
    ]


def ratio(cells, low, high, least) -> Verdict:
    """The largest measured batch of every dtype and size."""
    target = f"at least {least:g}× the best peer for n = {low}..{high}, every dtype"
    largest: dict = {}
    for cell in cells:
        if (
            cell["vectors"]
            and low <= cell["n"] <= high
            and cell["batch"] >= THROUGHPUT_BATCH
            and "ratio" in cell
        ):
            key = (cell["dtype"], cell["n"])
            if key not in largest or largest[key]["batch"] < cell["batch"]:
                largest[key] = cell
    return _worst(target, list(largest.values()), "ratio", least, "×")


def share(cells) -> Verdict:
    """Bandwidth at tiny sizes."""
    target = (
        f"at n ≤ {SHARE_MAX_N} at least {SHARE:.0%} of the device copy bandwidth "
        f"(batch {SHARE_BATCH})"
    )
    chosen = [c for c in cells if c["n"] <= SHARE_MAX_N and c["batch"] == SHARE_BATCH]
    return _worst(target, chosen, "share", SHARE, "")


def never_slower(cells) -> Verdict:
    """Every cell of the grid."""
    target = "never slower than any peer in any cell"
    return _worst(target, [c for c in cells if "ratio" in c], "ratio", 1.0, "×")


def times(cells, device) -> list[Verdict]:
    """Absolute times, which were set for one device."""
    found = []
    for (n, batch), most in H200_MS.items():
        target = f"float32 n = {n}, batch {batch}: at most {most:g} ms on an H200"
        mine = [
            c
            for c in cells
            if (c["dtype"], c["n"], c["batch"], c["vectors"])
            == ("float32", n, batch, True)
        ]
        if not mine or "H200" not in device:
            reason = (
                "no such cell in this run"
                if "H200" in device
                else f"this device: {device}"
            )
            found.append(Verdict(target, "not measured", reason))
            continue
        ms = mine[0]["bed_ms"]
        state = "met" if ms <= most else "not met"
        found.append(Verdict(target, state, f"{ms:.4g} ms"))
    return found


def _worst(target, cells, key, least, unit) -> Verdict:
    if not cells:
        return Verdict(target, "not measured", "no such cell in this run")
    missed = sorted((c for c in cells if c[key] < least), key=lambda c: c[key])
    worst = min(cells, key=lambda c: c[key])
    detail = f"least {worst[key]:.3g}{unit} at {_name(worst)}"
    if missed:
        detail = f"{len(missed)} of {len(cells)} cells miss it: " + ", ".join(
            f"{_name(c)} {c[key]:.3g}{unit}" for c in missed[:12]
        )
        detail += ", …" if len(missed) > 12 else ""
    return Verdict(target, "not met" if missed else "met", detail)


def _name(cell) -> str:
    values = "" if cell["vectors"] else " (values)"
    return f"{cell['dtype']} n = {cell['n']} batch {cell['batch']}{values}"
