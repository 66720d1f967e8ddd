"""What the tools on a knowledge graph take and give, spelt as the reference memory server spells it.

``cursor``, ``offset`` and ``left_out`` are ours: answers are bounded, and these lead to what did not fit.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from .entities import Edge, Entity, metadata_of

_CURSOR = Field(
    default=None, max_length=10_000, description="That of the answer before, to get what comes next"
)


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _EntityFields(BaseModel):
    name: str = Field(description="The name of the entity")
    entity_type: str = Field(alias="entityType", description="The type of the entity")
    observations: list[str] = Field(description="An array of observation contents associated with the entity")


class EntityArgument(_EntityFields):
    def entity(self) -> Entity:
        return Entity(self.name, self.entity_type, tuple(self.observations))


class EntityResult(Closed, _EntityFields):
    pass


class _RelationFields(BaseModel):
    source: str = Field(alias="from", description="The name of the entity where the relation starts")
    target: str = Field(alias="to", description="The name of the entity where the relation ends")
    relation_type: str = Field(alias="relationType", description="The type of the relation")


class RelationArgument(_RelationFields):
    def edge(self) -> Edge:
        return Edge(self.source, self.target, self.relation_type)


class EdgeResult(Closed, _RelationFields):
    pass


class EntitiesArguments(BaseModel):
    entities: list[EntityArgument]


class RelationsArguments(BaseModel):
    relations: list[RelationArgument]


class DeletedRelationsArguments(BaseModel):
    relations: list[RelationArgument] = Field(description="An array of relations to delete")


class Addition(BaseModel):
    entity_name: str = Field(
        alias="entityName", description="The name of the entity to add the observations to"
    )
    contents: list[str] = Field(description="An array of observation contents to add")


class ObservationsArguments(BaseModel):
    observations: list[Addition]


class EntityNamesArguments(BaseModel):
    entity_names: list[str] = Field(alias="entityNames", description="An array of entity names to delete")


class Deletion(BaseModel):
    entity_name: str = Field(
        alias="entityName", description="The name of the entity containing the observations"
    )
    observations: list[str] = Field(description="An array of observations to delete")


class DeletionsArguments(BaseModel):
    deletions: list[Deletion]


class ReadArguments(BaseModel):
    cursor: str | SkipJsonSchema[None] = _CURSOR


class SearchNodesArguments(BaseModel):
    query: str = Field(
        max_length=10_000,
        description="The search query to match against entity names, types, and observation content",
    )
    cursor: str | SkipJsonSchema[None] = _CURSOR


class OpenArguments(BaseModel):
    names: list[str] = Field(description="An array of entity names to retrieve")
    offset: int = Field(
        0, ge=0, description="From which observation and relation of each on; for what did not fit before"
    )


class EntitiesResult(Closed):
    entities: list[EntityResult]


class RelationsResult(Closed):
    relations: list[EdgeResult]


class AddedResult(Closed):
    entity_name: str = Field(alias="entityName")
    added_observations: list[str] = Field(alias="addedObservations")


class ObservationsResult(Closed):
    results: list[AddedResult]


class DoneResult(Closed):
    success: bool
    message: str


class GraphResult(Closed):
    entities: list[EntityResult]
    relations: list[EdgeResult]
    left_out: list[str] | SkipJsonSchema[None] = Field(
        default=None,
        description="What did not fit into this answer, and how to get it; not there if all did",
        exclude_if=lambda value: value is None,
    )


def entity_result(entity: Entity) -> EntityResult:
    return EntityResult.model_validate(metadata_of(entity))


def edge_result(edge: Edge) -> EdgeResult:
    return EdgeResult.model_validate(
        {"from": edge.source, "to": edge.target, "relationType": edge.relation_type}
    )


def added_result(name: str, added: list[str]) -> AddedResult:
    return AddedResult.model_validate({"entityName": name, "addedObservations": added})
