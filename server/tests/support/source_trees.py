"""Python source as a syntax tree."""

import ast
import gc


def parsed(text: str) -> ast.Module:
    """Without garbage collection: CPython 3.11 fails with a SystemError if a finalizer runs while it builds a tree."""
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()
