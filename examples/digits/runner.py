#!/usr/bin/env python3
"""A runner for spotbatch in plain Python: an example of the command protocol.

The worker starts this program and speaks JSON Lines with it: it writes a batch
to our stdin, we write the results to our stdout, one document a line. Whatever
goes to stderr ends up in the worker's log. The protocol ends when stdin ends.

It labels the images of the digits example by a simple rule, so that it needs no
library: an image is cut into 7 x 7 cells, and the digit whose mean image has the
most similar ink in them is the answer. That is right for 78 of 100 test images;
the ONNX model beside this file is far better. Put a real model in place of
`label`.

    python3 runner.py                  serve the protocol (the worker does that)
    python3 runner.py learn FOLDER     print MEANS, from the MNIST files in FOLDER
"""

import base64
import json
import struct
import sys
import zlib

SIDE = 28
CELL = 4
CELLS = SIDE // CELL

# The mean ink, 0 to 255, of each cell of each digit, row by row, as hexadecimal:
# what `runner.py learn .cache/mnist` printed.
MEANS = """
000000010100000002247a862900001480786c7604004680133080080067622173580300369e9b5f0f0000010607010000
000000000000000000043f480d00000003714f0300000004a71b00000000229b0a00000006436510010000000405010000
0000040b060100000d5088711700000e2a357525000008295e751702013c8ca779390901327357452a0400000101010000
0000010201000000135888651100010f2a617f16000004469d7f130002131823792c000332788c69100000041012040000
0000000000000000051a192b2102001464316e2b0100339b65a22101001b4d7f7211000001144c3b08000000050d090100
00000000010000000322535a3b0a000b6570412609001079774b0e0000182539611f0100206d7d550f0000010d11050000
00000514180500000220634109000007525f190c000013856b7d440400169c8d8a410200043e733e070000000000000000
00000000000000000718221e080004348487a631000114212692160000030e6d5c060000022a74220100000527330e0100
0000000000000000032771702602000e6961764305000752b2711101000b6b83500e0000167b8a500b0000011118060000
000000000000000001104336070000117765851f0000237d6fa11200000933696607000001165a3a070000011324160400
""".split()

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"


class BadItem(Exception):
    """Says that an item itself is bad: it fails, and its neighbours do not."""


def read_png(data):
    """Returns width, height and the pixels of a gray PNG of 8 bits."""
    if not data.startswith(PNG_SIGNATURE):
        raise BadItem("not a PNG image")
    try:
        header, packed = png_chunks(data)
        width, height, depth, color, _, _, interlace = struct.unpack(">IIBBBBB", header)
    except (struct.error, TypeError) as err:
        raise BadItem("PNG image is cut off") from err
    if (depth, color, interlace) != (8, 0, 0):
        raise BadItem("only gray PNG images of 8 bits, not interlaced, can be read")
    if (width, height) != (SIDE, SIDE):
        raise BadItem(f"image has {width} x {height} pixels, not {SIDE} x {SIDE}")
    # No more is unpacked than the image can have: a small file may say it is huge.
    want = height * (width + 1)
    try:
        raw = zlib.decompressobj().decompress(packed, want)
    except zlib.error as err:
        raise BadItem(f"PNG image is corrupt: {err}") from err
    if len(raw) != want:
        raise BadItem("PNG image is cut off")
    return width, height, unfilter(raw, width, height)


def png_chunks(data):
    """Returns the header and the packed pixels of a PNG file."""
    header, packed, at = None, b"", len(PNG_SIGNATURE)
    while True:
        length, kind = struct.unpack_from(">I4s", data, at)
        body = data[at + 8 : at + 8 + length]
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if zlib.crc32(kind + body) != checksum:
            raise BadItem(f"PNG image is corrupt: checksum of {kind!r}")
        if kind == b"IHDR":
            header = body
        elif kind == b"IDAT":
            packed += body
        elif kind == b"IEND":
            return header, packed
        at += 12 + length


def unfilter(raw, width, height):
    """Undoes the filters of the rows, of which a PNG file has five."""
    pixels, above = bytearray(), bytes(width)
    for y in range(height):
        start = y * (width + 1)
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + width])
        for x in range(width):
            left = row[x - 1] if x else 0
            corner = above[x - 1] if x else 0
            if kind == 1:
                row[x] = (row[x] + left) & 255
            elif kind == 2:
                row[x] = (row[x] + above[x]) & 255
            elif kind == 3:
                row[x] = (row[x] + (left + above[x]) // 2) & 255
            elif kind == 4:
                row[x] = (row[x] + paeth(left, above[x], corner)) & 255
            elif kind != 0:
                raise BadItem(f"PNG image has an unknown filter, {kind}")
        pixels += row
        above = row
    return pixels


def paeth(left, above, corner):
    """Returns the neighbour that is nearest to left + above - corner."""
    guess = left + above - corner
    return min((left, above, corner), key=lambda v: abs(guess - v))


def ink(pixels):
    """Returns the mean of each cell of an image."""
    cells = [0] * (CELLS * CELLS)
    for i, v in enumerate(pixels):
        if v:
            cells[i // SIDE // CELL * CELLS + i % SIDE // CELL] += v
    return [total / (CELL * CELL) for total in cells]


def label(pixels, means):
    """Returns the digits and their scores, 0 to 1, the best one first."""
    cells = ink(pixels)
    scores = []
    for digit, mean in enumerate(means):
        distance = sum((a - b) ** 2 for a, b in zip(cells, mean))
        scores.append((1 / (1 + (distance / len(cells)) ** 0.5), str(digit)))
    scores.sort(key=lambda s: (-s[0], s[1]))
    return [{"label": digit, "score": round(score, 6)} for score, digit in scores]


def answer(item, means):
    """Returns the result of one item, or its error."""
    try:
        # JSON payloads come as "data", all others as "data_b64".
        if "data_b64" not in item:
            raise BadItem(f"{item.get('content_type')} is not an image")
        _, _, pixels = read_png(base64.b64decode(item["data_b64"]))
        top = label(pixels, means)[:3]
        return {"item_id": item["item_id"], "output": {**top[0], "top": top}}
    except BadItem as err:
        return {"item_id": item["item_id"], "error": {"class": "item_error", "message": str(err)}}


def send(document):
    """Writes one line, and at once: the worker waits for it."""
    sys.stdout.write(json.dumps(document, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def serve():
    means = [list(bytes.fromhex(line)) for line in MEANS]
    # A new rule, or new means, need a new version: results of this one are kept.
    send({"ready": True, "protocol": 1, "model_version": "digits-ink-1"})
    for line in sys.stdin:
        request = json.loads(line)
        results = [answer(item, means) for item in request["items"]]
        send({"batch": request["batch"], "results": results})


def learn(folder):
    with open(f"{folder}/train-labels-idx1-ubyte", "rb") as f:
        labels = f.read()[8:]
    with open(f"{folder}/train-images-idx3-ubyte", "rb") as f:
        images = f.read()[16:]
    totals = [[0.0] * (CELLS * CELLS) for _ in range(10)]
    for i, digit in enumerate(labels):
        for cell, v in enumerate(ink(images[i * SIDE * SIDE : (i + 1) * SIDE * SIDE])):
            totals[digit][cell] += v
    for digit, total in enumerate(totals):
        print(bytes(round(v / labels.count(digit)) for v in total).hex())


if __name__ == "__main__":
    if sys.argv[1:2] == ["learn"] and len(sys.argv) == 3:
        learn(sys.argv[2])
    elif len(sys.argv) == 1:
        serve()
    else:
        sys.exit("usage: runner.py | runner.py learn FOLDER")
