"""What a Parquet file states of itself, taken from its bytes: a reader of Thrift's compact protocol
and of the structures of parquet.thrift that matter here. It shares no code with any Parquet
library.
"""

import dataclasses
import struct
import zlib

CODECS = {0: "none", 1: "snappy", 2: "gzip", 4: "brotli", 6: "zstd", 7: "lz4_raw"}
DATA, INDEX, DICTIONARY, DATA_V2 = range(4)
PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
UNORDERED, ASCENDING, DESCENDING = range(3)


class Thrift:
    """Structures as {field number: value}, lists as lists, binaries as bytes."""

    def __init__(self, data, at=0):
        self.data = data
        self.at = at

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def zigzag(self):
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def binary(self):
        length = self.varint()
        self.at += length
        assert self.at <= len(self.data)
        return bytes(self.data[self.at - length:self.at])

    def value(self, kind, in_list=False):
        if kind in (1, 2):
            return self.byte() == 1 if in_list else kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            return self.zigzag()
        if kind == 7:
            self.at += 8
            return struct.unpack("<d", self.data[self.at - 8:self.at])[0]
        if kind == 8:
            return self.binary()
        if kind in (9, 10):
            head = self.byte()
            count = head >> 4 if head >> 4 != 15 else self.varint()
            return [self.value(head & 15, True) for _ in range(count)]
        assert kind == 12, f"type {kind} is not one of Parquet's"
        return self.struct()

    def struct(self):
        fields, number = {}, 0
        while True:
            head = self.byte()
            if head == 0:
                return fields
            number = number + (head >> 4) if head >> 4 else self.zigzag()
            assert number not in fields
            fields[number] = self.value(head & 15)


@dataclasses.dataclass
class Page:
    offset: int
    header_bytes: int
    header: dict
    body: bytes

    @property
    def kind(self):
        return self.header[1]

    @property
    def is_data(self):
        return self.kind in (DATA, DATA_V2)

    @property
    def details(self):
        return self.header[{DATA: 5, DICTIONARY: 7, DATA_V2: 8}[self.kind]]

    @property
    def values(self):
        return self.details[1]

    @property
    def encoding(self):
        return self.details[4 if self.kind == DATA_V2 else 2]

    @property
    def stored_bytes(self):
        return self.header_bytes + len(self.body)

    @property
    def unpacked_bytes(self):
        return self.header_bytes + self.header[2]

    @property
    def checksum_holds(self):
        """None: there is no checksum."""
        if 4 not in self.header:
            return None
        return self.header[4] & 0xFFFFFFFF == zlib.crc32(self.body)


class File:
    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        assert self.data[:4] == self.data[-4:] == b"PAR1"
        size = struct.unpack("<I", self.data[-8:-4])[0]
        self.footer = Thrift(self.data[-8 - size:-8]).struct()
        self.footer_at = len(self.data) - 8 - size
        self.schema = self.footer[2]
        self.groups = self.footer.get(4, [])
        self.created_by = self.footer.get(6, b"").decode()
        self.pairs = {pair[1].decode(): pair.get(2) for pair in self.footer.get(5, [])}

    def chunks(self, group):
        """By dotted path."""
        made = [Chunk(self, chunk) for chunk in self.groups[group][1]]
        return {chunk.path: chunk for chunk in made}


class Chunk:
    """A column chunk; what is absent is None."""

    def __init__(self, file, chunk):
        self.file = file
        self.chunk = chunk
        self.meta = chunk[3]
        self.type = self.meta[1]
        self.encodings = set(self.meta[2])
        self.path = ".".join(part.decode() for part in self.meta[3])
        self.codec = CODECS[self.meta[4]]
        self.values, self.unpacked_bytes, self.stored_bytes = (self.meta[n] for n in (5, 6, 7))
        self.data_at = self.meta[9]
        self.dictionary_at = self.meta.get(11)
        statistics = self.meta.get(12, {})
        self.null_count, self.distinct_count = statistics.get(3), statistics.get(4)
        self.max, self.min = statistics.get(5), statistics.get(6)
        self.old_max, self.old_min = statistics.get(1), statistics.get(2)
        self.max_exact, self.min_exact = statistics.get(7), statistics.get(8)
        self.encoding_stats = {(entry[1], entry[2]): entry[3] for entry in self.meta.get(13, [])}
        sizes = self.meta.get(16, {})
        self.byte_array_bytes = sizes.get(1)
        self.repetition_histogram, self.definition_histogram = sizes.get(2), sizes.get(3)

    def part(self, offset, length):
        """An index of the chunk."""
        if offset not in self.chunk:
            return None
        at = self.chunk[offset]
        thrift = Thrift(self.file.data, at)
        fields = thrift.struct()
        assert thrift.at == at + self.chunk[length]
        return fields

    def offset_index(self):
        return self.part(4, 5)

    def column_index(self):
        return self.part(6, 7)

    def pages(self):
        at = self.data_at if self.dictionary_at is None else min(self.data_at, self.dictionary_at)
        end = at + self.stored_bytes
        found = []
        while at < end:
            thrift = Thrift(self.file.data, at)
            header = thrift.struct()
            body = self.file.data[thrift.at:thrift.at + header[3]]
            found.append(Page(at, thrift.at - at, header, body))
            at = thrift.at + header[3]
        assert at == end <= self.file.footer_at
        return found
