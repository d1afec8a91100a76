#!/usr/bin/env python3
"""The smallest useful runner: squares the number n of each item.

Put your own model where square() is called. See docs/command-protocol.md.
"""

import json
import sys


def square(data):
    return {"square": data["n"] ** 2}


def answer(item):
    try:
        return {"item_id": item["item_id"], "output": square(item["data"])}
    except (KeyError, TypeError) as err:
        # Only this item fails; its neighbours' results are stored.
        return {"item_id": item["item_id"], "error": {"class": "item_error", "message": repr(err)}}


def main():
    # stdout belongs to the protocol; print() to stderr.
    print(json.dumps({"ready": True, "protocol": 1, "model_version": "square-1"}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        results = [answer(item) for item in request["items"]]
        print(json.dumps({"batch": request["batch"], "results": results}), flush=True)


if __name__ == "__main__":
    main()
