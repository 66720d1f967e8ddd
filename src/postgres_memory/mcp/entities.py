"""How a knowledge graph lies on the tables: an entity is a memory, a relation one of type RELATED with a label.

The id of the memory comes from the entity's name, so that the primary key keeps two of one name out, whichever process
writes. Its metadata are the entity as JSON spells it; its content is the name, the type and the observations, a line
each, so that every way of searching memories finds them. A name that only relations mention is such a memory too, an
archived one without a type: relations need both of their ends.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from .._validation import check_text
from ..errors import InvalidValueError
from ..filters import Filter, field
from ..records import MemoryRecord, MemoryRelationType, MemoryStatus

#: What relations between entities are stored as; what they say is their label.
RELATION = MemoryRelationType.RELATED

MAX_NAME = 1024
"""How many characters a name or a type of an entity may have."""

#: No name that fits gives an id that begins with the second.
_NAMED, _HASHED = "entity:", "entity-sha256:"
_MAX_NAMED_BYTES = 240


@dataclass(frozen=True, slots=True)
class Entity:
    """A named thing, and what is known of it."""

    name: str
    entity_type: str
    observations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation between two entities, by their names."""

    source: str
    target: str
    relation_type: str


def is_node() -> Filter:
    """Return the filter that entities match, and names that only relations mention."""
    return field("id").starts_with(_NAMED) | field("id").starts_with(_HASHED)


def node_id(name: str) -> str:
    """Return the id of the entity of this name. Raises InvalidValueError for what cannot be a name."""
    spelt = check_text(name, "name").encode()
    if len(name) > MAX_NAME:
        raise InvalidValueError("name", f"must be at most {MAX_NAME} characters")
    if len(spelt) > _MAX_NAMED_BYTES:
        return _HASHED + hashlib.sha256(spelt).hexdigest()
    return _NAMED + name


def name_of_id(id: str) -> str | None:
    """Return the name that an id tells; None where it does not, as of long names and of what is no entity."""
    return id.removeprefix(_NAMED) if id.startswith(_NAMED) else None


def is_node_id(id: str) -> bool:
    """Tell whether an id is that of an entity."""
    return id.startswith((_NAMED, _HASHED))


def content_of(entity: Entity) -> str:
    """Return what the memory of an entity says."""
    return "\n".join((entity.name, entity.entity_type, *entity.observations))


def metadata_of(entity: Entity) -> dict[str, Any]:
    """Return the entity as JSON spells it."""
    return {
        "name": entity.name,
        "entityType": entity.entity_type,
        "observations": list(entity.observations),
    }


def mention_of(name: str) -> dict[str, Any]:
    """Return the metadata of a name that only relations mention."""
    return {"name": name}


def name_of(record: MemoryRecord) -> str:
    """Return the name of the entity whose memory this is."""
    name = record.metadata.get("name")
    return name if isinstance(name, str) else (name_of_id(record.id) or record.id)


def entity_of(record: MemoryRecord | None) -> Entity | None:
    """Return the entity whose memory this is; None where it is none, or put away."""
    if record is None or record.status is not MemoryStatus.ACTIVE:
        return None
    kind, observations = record.metadata.get("entityType"), record.metadata.get("observations")
    if not isinstance(kind, str) or not isinstance(observations, list):
        return None
    return Entity(name_of(record), kind, tuple(one for one in observations if isinstance(one, str)))
