"""The one form of JSON that the library and the command line print."""

import json


def json_line(value: object) -> str:
    """One line; decimals are strings."""
    return json.dumps(value, default=lambda number: format(number, "f"), ensure_ascii=False, separators=(",", ":"))
