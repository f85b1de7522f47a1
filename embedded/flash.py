#!/usr/bin/env python3
"""Prints how many bytes of flash a firmware takes: all loaded segments of the ELF file. flash.py FILE"""

import struct
import sys
from pathlib import Path

PT_LOAD = 1


def main() -> None:
    elf = Path(sys.argv[1]).read_bytes()
    offset, size, count = struct.unpack_from("<I", elf, 28)[0], *struct.unpack_from("<HH", elf, 42)
    headers = (struct.unpack_from("<8I", elf, offset + at * size) for at in range(count))
    # type, offset, virtual address, physical address, bytes in the file: what is in the file is in flash.
    print(f"flash: {sum(header[4] for header in headers if header[0] == PT_LOAD)} bytes")


main()
