"""Makes Triton's interpreter faster, which searches the whole language at every call of a function in a kernel."""

from __future__ import annotations

from typing import Any


def patch_the_language_once_a_launch() -> None:
    """Let functions that a kernel calls use what its launch has patched; patching it again takes half of the time."""
    try:
        import triton.language as tl
        from triton.runtime import interpreter
    except ImportError:
        return
    if not hasattr(interpreter, "_patch_lang") or not hasattr(interpreter, "_LangPatchScope"):
        return  # another version, which may do it by itself
    original, patched = interpreter._patch_lang, set[str]()

    def once(function: Any) -> Any:
        names = {value.__name__ for value in function.__globals__.values() if value is tl or value is tl.core}
        if names and names <= patched:
            return interpreter._LangPatchScope()  # with nothing to take back
        scope = original(function)
        restore = scope.restore

        def take_back() -> None:
            restore()
            patched.difference_update(names)

        patched.update(names)
        scope.restore = take_back
        return scope

    interpreter._patch_lang = once
