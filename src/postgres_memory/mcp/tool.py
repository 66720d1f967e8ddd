"""A tool: what it takes and gives, what a call of it answers, and what a model is told when it fails."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import mcp_types as types
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import (
    ConflictError,
    DatabaseError,
    InvalidInputError,
    NotFoundError,
    NotPermittedError,
    PostgresMemoryError,
)
from .knowledge_graph import EntityMissingError

ArgumentsT = TypeVar("ArgumentsT", bound=BaseModel)
ResultT = TypeVar("ResultT", bound=BaseModel)

_log = logging.getLogger(__name__)

#: These say what was wrong with the call, and nothing of the database.
_OF_THE_CALL = (InvalidInputError, NotFoundError, NotPermittedError, ConflictError, EntityMissingError)


class Arguments(BaseModel):
    """What a tool takes; what it does not know is refused, so that a misspelt argument is noticed."""

    model_config = ConfigDict(extra="forbid")


def as_json(result: BaseModel) -> str:
    """Return a result as text, for clients that do not read structured content."""
    return json.dumps(_plain(result), ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Effect:
    """What a call does to what is stored; ``idempotent``: a second one with the same arguments adds nothing."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False


READS = Effect(read_only=True, idempotent=True)


@dataclass(frozen=True, slots=True)
class Tool(Generic[ArgumentsT, ResultT]):
    """One tool: ``call`` gets checked arguments; ``text`` spells the result for clients that read texts only."""

    name: str
    title: str
    description: str
    arguments: type[ArgumentsT]
    result: type[ResultT]
    effect: Effect
    call: Callable[[ArgumentsT], Awaitable[ResultT]]
    text: Callable[[ResultT], str] = as_json

    def described(self) -> types.Tool:
        """Return what clients are told of it."""
        return types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=schema_of(self.arguments, "validation"),
            output_schema=schema_of(self.result, "serialization"),
            annotations=types.ToolAnnotations(
                read_only_hint=self.effect.read_only,
                destructive_hint=self.effect.destructive,
                idempotent_hint=self.effect.idempotent,
                open_world_hint=False,
            ),
        )

    async def answer(self, given: dict[str, Any]) -> types.CallToolResult:
        """Check the arguments, call the tool and return its result, or what went wrong as an error of the tool."""
        try:
            result = await self.call(self.arguments.model_validate(given))
        except ValidationError as error:
            return _failed(_arguments_problem(error))
        except _OF_THE_CALL as error:
            return _failed(str(error))
        except PostgresMemoryError as error:
            _log.warning("%s: %s: %s", self.name, type(error).__name__, error)
            return _failed(_database_problem(error))
        except Exception as error:
            # Its text, which the SDK would hand on, may hold anything: it is for DEBUG alone.
            _log.error("%s failed: %s", self.name, type(error).__name__)
            _log.debug("%s failed", self.name, exc_info=True)
            problem = "the server failed at this call; its log says more at DEBUG"
            raise MCPError(types.INTERNAL_ERROR, problem) from error
        text = types.TextContent(type="text", text=self.text(result))
        return types.CallToolResult(content=[text], structured_content=_plain(result))


def schema_of(model: type[BaseModel], mode: Any) -> dict[str, Any]:
    """Return the JSON Schema of a model, without references and titles, which some clients cannot read."""
    schema = model.model_json_schema(mode=mode)
    return dict(_inlined(schema, schema.get("$defs", {})))


def _inlined(part: Any, definitions: dict[str, Any], *, named: bool = False) -> Any:
    """Return a part of a schema; ``named`` says that its keys are names of properties."""
    if isinstance(part, list):
        return [_inlined(one, definitions) for one in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        target = definitions[part["$ref"].removeprefix("#/$defs/")]
        rest = {key: value for key, value in part.items() if key != "$ref"}
        return _inlined({**target, **rest}, definitions)
    return {
        key: _inlined(value, definitions, named=key == "properties" and not named)
        for key, value in part.items()
        if named or key not in ("title", "$defs")
    }


def _plain(result: BaseModel) -> dict[str, Any]:
    return result.model_dump(mode="json", by_alias=True)


def _failed(problem: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=problem)], is_error=True)


def _arguments_problem(error: ValidationError) -> str:
    """Say which argument breaks which rule; never what it was."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    shown = [f"{_place(one['loc'])}: {one['msg']}" for one in problems[:5]]
    more = [f"and {len(problems) - 5} more problems"] if len(problems) > 5 else []
    return "; ".join(shown + more)


def _place(path: tuple[int | str, ...]) -> str:
    """Spell where an argument stands, without what it is taken for and at a bounded length."""
    return ".".join(str(step)[:80] for step in path[:8]) or "arguments"


def _database_problem(error: PostgresMemoryError) -> str:
    """Say what a model can do about it; the error itself may name hosts and users."""
    if not isinstance(error, DatabaseError):
        return (
            f"the memory is not set up to do this ({type(error).__name__}); the log of its server says more"
        )
    if error.nothing_written:
        return (
            f"the database did not do it ({type(error).__name__}); nothing was written; try again in a while"
        )
    return (
        f"the database did not answer ({type(error).__name__}), so that it is not known whether anything was written; "
        "read it before you write it again"
    )
