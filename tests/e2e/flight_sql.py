"""Messages of Flight SQL, written by hand: another writer than the one under test."""


def varint(number):
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def length(number, body):
    """A field of bytes of a message."""
    return bytes([number << 3 | 2]) + varint(len(body)) + body


def command(name, body=b""):
    """A message of Flight SQL in its envelope, written by hand."""
    url = f"type.googleapis.com/arrow.flight.protocol.sql.{name}".encode()
    return (b"\x0a" + bytes([len(url)]) + url +
            (b"\x12" + bytes([len(body)]) + body if body else b""))


def text(number, value):
    return bytes([number << 3 | 2, len(value)]) + value.encode()
