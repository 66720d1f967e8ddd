"""What the tools on memories take and give."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import AwareDatetime, BaseModel, Field

from ..records import MemoryRelationType
from .tool import Arguments

Id = str
_ID = "The id of the memory, as the tools return it."
_FILTER = (
    "Conditions that memories must meet: an object of fields with a value or operators, such as "
    '{"tags": {"$containsAny": ["work"]}, "importance": {"$gte": 0.5}, "metadata.topic": "tea"}. Operators: $eq, $ne, '
    "$in, $nin, $lt, $lte, $gt, $gte, $between, $exists, $startsWith, $endsWith, $contains, $icontains, $containsAny, "
    "$containsAll; $and, $or, $not join."
)
_TAGS = "Short words to filter by."
_IMPORTANCE = "From 0 to 1."
_METADATA = "A JSON object to keep with it, which filters can ask for."


class StoreArguments(Arguments):
    content: str = Field(
        min_length=1, description="What to remember: a text that can be understood by itself."
    )
    metadata: dict[str, Any] = Field(default_factory=dict, description=_METADATA)
    tags: list[str] = Field(default_factory=list, max_length=100, description=_TAGS)
    importance: float = Field(0.5, ge=0, le=1, description=_IMPORTANCE)
    thread_id: str | None = Field(None, description="The conversation or document it belongs to.")
    expires_at: AwareDatetime | None = Field(
        None,
        description="When to forget it by itself: ISO 8601 with a time zone, such as 2030-01-31T12:00:00Z.",
    )


class SearchArguments(Arguments):
    query: str = Field(min_length=1, max_length=10_000, description="A question, or words to look for.")
    limit: int = Field(10, ge=1, description="At most how many.")
    filter: dict[str, Any] | None = Field(None, description=_FILTER)
    min_score: float = Field(
        0.01, description="Leave out what scores below: 0 has nothing of the query, about 1 has all of it."
    )


class GetArguments(Arguments):
    id: Id = Field(description=_ID)
    offset: int = Field(
        0, ge=0, description="From which character of the content on; for what did not fit before."
    )


class UpdateArguments(Arguments):
    id: Id = Field(description=_ID)
    content: str | None = Field(None, min_length=1, description="The new text.")
    metadata: dict[str, Any] | None = Field(
        None, description="Keys to set; the others stay, unless replace_metadata is true."
    )
    replace_metadata: bool = Field(False, description="Whether metadata replaces all there is.")
    tags: list[str] | None = Field(None, max_length=100, description="All tags it has from now on.")
    importance: float | None = Field(None, ge=0, le=1, description=_IMPORTANCE)
    confidence: float | None = Field(None, ge=0, le=1, description="How sure it is, from 0 to 1.")
    expected_version: int | None = Field(
        None,
        ge=1,
        description="Change it only if this is its version still: no change of others is overwritten.",
    )


class ForgetArguments(Arguments):
    id: Id = Field(description=_ID)


class RelateArguments(Arguments):
    source_id: Id = Field(description="The id of the memory that the relation starts at.")
    target_id: Id = Field(description="The id of the memory that it leads to.")
    relation_type: MemoryRelationType = Field(description="How the source stands to the target.")
    label: str = Field("", max_length=255, description="A finer kind of relation, in your own words.")
    confidence: float = Field(1.0, ge=0, le=1, description="How sure it is, from 0 to 1.")


class RelatedArguments(Arguments):
    id: Id = Field(description="The id of the memory to start at.")
    relation_types: list[MemoryRelationType] | None = Field(
        None, description="Which relations to follow; all if none."
    )
    direction: Literal["out", "in", "both"] = Field("both", description="Which way relations are followed.")
    max_depth: int = Field(2, ge=1, le=8, description="Over how many relations at most.")
    min_confidence: float = Field(0.0, ge=0, le=1, description="Leave out what is reached with less.")
    limit: int = Field(20, ge=1, description="At most how many.")


class ListArguments(Arguments):
    filter: dict[str, Any] | None = Field(None, description=_FILTER)
    order_by: Literal[
        "created_at", "-created_at", "updated_at", "-updated_at", "importance", "-importance"
    ] = Field("-created_at", description="The order; a minus puts the largest first.")
    limit: int = Field(20, ge=1, description="At most how many.")
    cursor: str | None = Field(
        None, max_length=10_000, description="That of the page before, to get the next one."
    )


class LeftOut(BaseModel):
    left_out: list[str] = Field(
        default_factory=list, description="What did not fit into this answer, and how to get it."
    )


class RelationResult(BaseModel):
    source_id: Id
    relation_type: MemoryRelationType
    target_id: Id
    label: str
    confidence: float


class MemoryResult(LeftOut):
    id: Id
    content: str
    metadata: dict[str, Any]
    tags: list[str]
    memory_type: str
    status: str
    importance: float
    confidence: float
    thread_id: str | None
    owner: str
    created_at: datetime
    updated_at: datetime | None
    expires_at: datetime | None
    version: int


class WholeResult(MemoryResult):
    relations: list[RelationResult] = Field(description="Its relations, from it and to it.")


class FoundResult(MemoryResult):
    score: float


class SearchResult(LeftOut):
    memories: list[FoundResult]


class ReachedResult(MemoryResult):
    depth: int = Field(description="How many relations away it is.")
    path_confidence: float = Field(description="The product of the confidences on the way.")
    path: list[RelationResult] = Field(description="The relations on the way.")


class RelatedResult(LeftOut):
    memories: list[ReachedResult]


class PageResult(LeftOut):
    memories: list[MemoryResult]
    cursor: str | None = Field(description="Give it back to get the next page; null on the last one.")


class ForgetResult(BaseModel):
    forgotten: bool = Field(description="False where there was no such memory.")
