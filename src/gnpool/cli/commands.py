"""Commands whose errors are one line, which names their options, and an exit status."""

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
    """The name of a parameter for the user: its option, or the name of its argument in the usage line."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return str(max(parameter.opts, key=len))
