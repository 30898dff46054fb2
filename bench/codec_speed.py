"""What the codec alone costs: `codec_speed.py FOLDER CODEC LEVEL` unpacks every page of the files
in FOLDER and packs what was in them again, in pieces of a page's size, in one thread; reading and
parsing are not timed. It also tells what the pages hold, by the cases of the splice tier:

1  plain     pages without a dictionary
2  few       dictionaries that are smaller than the pages of indices into them
3  unique    dictionaries in which every value is used once
4  many      the other dictionaries

Codecs are Arrow's, as in lithify; each call through Python costs about a microsecond. Of more than
SAMPLE bytes every n-th file is taken, and the times are for all. Prints JSON."""

import json
import pathlib
import sys
import time

SAMPLE = 96 << 20
PIECE = 1 << 20
DATA, DICTIONARY, DATA_V2 = 0, 2, 3
PLAIN_DICTIONARY, RLE_DICTIONARY = 2, 8


class Thrift:
    """Reads structs of the compact protocol into {field id: value}."""

    def __init__(self, data, at):
        self.data = data
        self.at = at

    def varint(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7

    def value(self, kind):
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            self.at += 1
            return self.data[self.at - 1]
        if kind in (4, 5, 6):
            number = self.varint()
            return number >> 1 ^ -(number & 1)
        if kind in (7, 8):
            size = 8 if kind == 7 else self.varint()
            self.at += size
            return self.data[self.at - size:self.at]
        if kind == 12:
            return self.struct()
        raise ValueError(f"type {kind} in a page header")

    def struct(self):
        fields, number = {}, 0
        while head := self.data[self.at]:
            self.at += 1
            if head >> 4:
                number += head >> 4
            else:
                step = self.varint()
                number = step >> 1 ^ -(step & 1)
            fields[number] = self.value(head & 15)
        self.at += 1
        return fields


def pages(data, start, size):
    """(page header, body) of each page of a column chunk."""
    at = start
    while at < start + size:
        reader = Thrift(data, at)
        header = reader.struct()
        at = reader.at + header[3]
        yield header, data[reader.at:at]


def case_of(headers, nulls):
    """The case of a column chunk."""
    data = [h[8] if h[1] == DATA_V2 else h[5] for h in headers if h[1] != DICTIONARY]
    dictionary = [h for h in headers if h[1] == DICTIONARY]
    encodings = [d[4] if h[1] == DATA_V2 else d[2]
                 for h, d in zip((h for h in headers if h[1] != DICTIONARY), data)]
    in_dictionary = [d[1] for d, e in zip(data, encodings)
                     if e in (PLAIN_DICTIONARY, RLE_DICTIONARY)]
    if not dictionary or not in_dictionary:
        return "plain"
    values = sum(in_dictionary) - (nulls or 0)
    if len(in_dictionary) == len(data) and dictionary[0][7][1] == values:
        return "unique"
    indices = sum(h[3] for h in headers if h[1] != DICTIONARY)
    return "few" if dictionary[0][3] <= indices else "many"


class Pages:
    """All compressed parts of pages, by column, and the stored bytes of each case."""

    def __init__(self):
        self.bodies = {}  # (column, is it a dictionary) -> [(packed, unpacked size)]
        self.cases = {"plain": 0, "few": 0, "unique": 0, "many": 0}

    def add(self, path):
        import pyarrow.parquet as pq
        data = pathlib.Path(path).read_bytes()
        footer = pq.read_metadata(path)
        for group in (footer.row_group(i) for i in range(footer.num_row_groups)):
            for chunk in (group.column(i) for i in range(group.num_columns)):
                start = chunk.dictionary_page_offset or chunk.data_page_offset
                found = list(pages(data, start, chunk.total_compressed_size))
                headers = [header for header, _ in found]
                nulls = chunk.statistics.null_count if chunk.statistics else 0
                case = case_of(headers, nulls)
                if case == "plain":
                    self.cases["plain"] += chunk.total_compressed_size
                else:  # A dictionary that was given up leaves plain pages behind it.
                    for header, body in found:
                        self.cases["plain" if is_plain(header) else case] += len(body)
                for header, body in found:
                    self.add_body(chunk.path_in_schema, header, body)

    def add_body(self, column, header, body):
        size, packed = header[2], True
        if header[1] == DATA_V2:
            levels = header[8].get(5, 0) + header[8].get(6, 0)
            body, size, packed = body[levels:], size - levels, header[8].get(7, True)
        if packed and size > 0:
            self.bodies.setdefault((column, header[1] == DICTIONARY), []).append((body, size))


def is_plain(header):
    if header[1] == DICTIONARY:
        return False
    encoding = header[8][4] if header[1] == DATA_V2 else header[5][2]
    return encoding not in (PLAIN_DICTIONARY, RLE_DICTIONARY)


def timed(work, items):
    """(results, wall, CPU seconds)."""
    cpu, begin = time.process_time(), time.perf_counter()
    results = [work(*item) for item in items]
    return results, time.perf_counter() - begin, time.process_time() - cpu


def main(folder, name, level):
    import pyarrow as pa
    pa.set_cpu_count(1)
    codec = pa.Codec(name, compression_level=int(level)) if name == "zstd" else pa.Codec(name)
    files = sorted(pathlib.Path(folder).glob("*.parquet"))
    total = sum(path.stat().st_size for path in files)
    step = max(1, -(-total // SAMPLE))
    chosen = files[::step]
    share = sum(path.stat().st_size for path in chosen) / total
    held = Pages()
    for path in chosen:
        held.add(path)
    sums = {"unpack_wall": 0, "unpack_cpu": 0, "pack_wall": 0, "pack_cpu": 0, "raw": 0,
            "packed": 0}
    for bodies in held.bodies.values():
        plain, wall, cpu = timed(codec.decompress, bodies)
        sums["unpack_wall"] += wall
        sums["unpack_cpu"] += cpu
        joined = b"".join(plain)
        pieces = [(joined[i:i + PIECE],) for i in range(0, len(joined), PIECE)]
        packed, wall, cpu = timed(codec.compress, pieces)
        sums["pack_wall"] += wall
        sums["pack_cpu"] += cpu
        sums["raw"] += len(joined)
        sums["packed"] += sum(piece.size for piece in packed)
    of = sum(held.cases.values())
    print(json.dumps({key: value / share for key, value in sums.items()} |
                     {"cases": {key: value / of for key, value in held.cases.items()},
                      "sample": share}))


if __name__ == "__main__":
    main(*sys.argv[1:])
