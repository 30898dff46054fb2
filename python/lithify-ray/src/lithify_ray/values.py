"""Sizes and durations as lithify's configuration writes them."""

import re

SIZES = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
SECONDS = {"": 1, "ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}


def parse_size(text):
    """Whole bytes: "4GiB", "512M", "1.5GiB", "4096"."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(B|[KMGT](?:iB)?)?", str(text).strip())
    if not found:
        raise ValueError(f'"{text}" is not a size: write it like 4GiB or 512MiB')
    return int(float(found[1]) * SIZES[(found[2] or "").removesuffix("iB")])


def parse_duration(text):
    """Seconds: "30s", "5min", "500ms", "30"."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|min|h|d)?", str(text).strip())
    if not found:
        raise ValueError(f'"{text}" is not a duration: write it like 30s or 5min')
    return float(found[1]) * SECONDS[found[2] or ""]
