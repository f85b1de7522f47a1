"""Helm's records of releases: secrets in Kubernetes' form of protobuf, kept without looking at what they say."""

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\0"


def number(value):
    """A number as protobuf writes it."""
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def field(tag, content):
    return number(tag << 3 | 2) + number(len(content)) + content


def fields(message):
    """The fields of a message that have a length, as pairs of tag and content."""
    at = 0

    def read():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        head = read()
        length = read()
        if head & 7 == 2:
            yield head >> 3, message[at : at + length]
            at += length


def envelope(kind, raw):
    return MAGIC + field(1, field(1, b"v1") + field(2, kind)) + field(2, raw)


class ReleaseRecords:
    def __init__(self):
        self.secrets = {}

    def put(self, sent):
        """Keeps a secret, and gives it back."""
        raw = dict(fields(sent[len(MAGIC) :]))[2]
        meta = dict(fields(raw))[1]
        self.secrets[dict(fields(meta))[1].decode()] = raw
        return envelope(b"Secret", raw)

    def get(self, name):
        return envelope(b"Secret", self.secrets[name]) if name in self.secrets else None

    def list(self):
        """All of them: one release needs no selectors."""
        return envelope(b"SecretList", field(1, b"") + b"".join(field(2, raw) for raw in self.secrets.values()))
