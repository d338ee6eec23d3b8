"""Commands whose errors are one line and an exit status, in the words of their options."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup

from gnpool.cli.errors import reporting


class Command(TyperCommand):
    """One command. Its errors name its options."""

    def invoke(self, ctx: Any) -> Any:
        with reporting({one.name: option_of(one) for one in self.params}):
            return super().invoke(ctx)


class Commands(TyperGroup):
    """All commands."""

    def invoke(self, ctx: Any) -> Any:
        with reporting():
            return super().invoke(ctx)


def option_of(parameter: Any) -> str:
    """What a user types for a parameter: its option, or what the usage calls its argument."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return str(max(parameter.opts, key=len))
