"""Registration of a schema under a subject, and the lookup of one that is registered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from broker_registry.checks import Compare, HasFields
from broker_registry.compatibility import Level
from broker_registry.errors import Code, RegistryError, invalid_schema, not_permitted
from broker_registry.operations.plan import SETTINGS, Ids, Plan, Record, Steps, hash_part, subject_part
from broker_registry.operations.wanted import LATEST, NO_ID, Parsed, Wanted, find_same, parse, source_of
from broker_registry.rules import VERSION_PROPERTY, Metadata, merged_metadata, merged_rule_sets
from broker_registry.schema_types.base import InvalidSchema, Policy
from broker_registry.store.keys import NUMBER_MAX
from broker_registry.store.state import Place, State
from broker_registry.store.values import Config, Mode, SchemaContent, SchemaValue, context_record
from broker_registry.subject_names import SubjectName, qualified


@dataclass(frozen=True, slots=True)
class RegisterSettings:
    """`normalizes`: as the request or the settings of the subject say. `is_forced`: without compatibility checks."""

    normalizes: bool = False
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """The answer to a registration. `is_new`: a version was added."""

    value: SchemaValue
    is_new: bool


def register(state: State, ids: Ids, wanted: Wanted, settings: RegisterSettings) -> Steps[Plan[Registered]]:
    """Add a version to a subject, or find the one that has the schema."""
    existing = yield from registered_already(state, wanted, settings)
    if existing is not None:
        return Plan(Registered(existing, is_new=False))
    _check_mode(state, wanted)
    config = state.config_in_scope(wanted.subject)
    is_import = state.mode_in_scope(wanted.subject).is_import
    versions = state.versions(wanted.subject)
    undeleted = [value for value in versions if not value.is_deleted]
    new_version = max((value.version for value in versions), default=0) + 1
    if not is_import:
        wanted = _populated(wanted, config, undeleted[-1] if undeleted else None, new_version)
    if not wanted.has_text:
        raise invalid_schema("Empty schema")
    is_new = wanted.id == NO_ID and state.validates_new_schemas(config)
    parsed = yield from parse(state, wanted, config, is_new=is_new, normalizes=settings.normalizes)
    wanted = parsed.wanted
    schema_id, found = _found_by_hash(state, wanted)
    if found is None and wanted.version == 0:
        alike = [value for value in reversed(undeleted) if schema_id in (NO_ID, value.id)]
        found = yield from find_same(state, parsed, alike)
    if found is not None:
        return Plan(Registered(found, is_new=False))
    if not is_import and not settings.is_forced:
        problems = yield from incompatibilities(state, parsed, config, undeleted)
        if problems:
            raise RegistryError(
                Code.INCOMPATIBLE_SCHEMA,
                f'Schema being registered is incompatible with an earlier schema for subject "{wanted.subject}", '
                f"details: [{', '.join(problems)}]",
            )
    return _plan(state, ids, wanted, schema_id, new_version, versions)


def _plan(
    state: State, ids: Ids, wanted: Wanted, schema_id: int, new_version: int, versions: Sequence[SchemaValue]
) -> Plan[Registered]:
    if wanted.version > 0 and wanted.version != new_version and not state.mode_in_scope(wanted.subject).is_import:
        raise invalid_schema("Version is not one more than previous version")
    version = wanted.version if wanted.version > 0 else new_version
    if version > NUMBER_MAX:
        # Its record would not be read, and the id be given again.
        raise RegistryError(Code.STORE, f"{wanted.subject} has no more versions: the greatest is {NUMBER_MAX:,}")
    if wanted.id != NO_ID:
        _check_id(state, wanted, schema_id)
    elif schema_id == NO_ID:
        schema_id = _next_id(ids, wanted.context)
    md5 = wanted.content.md5()
    value = SchemaValue(wanted.subject, version, schema_id, wanted.content, md5=md5)
    records: list[Record] = []
    name = SubjectName.parse(wanted.subject)
    if not name.is_default and name.context not in state.contexts:
        key, data = context_record(name.context)
        records.append((key.encode(), data))
    for old in versions:
        # The id would belong to two versions. A version that is referred to stays: references name it.
        is_replaced = old.is_deleted and old.id == schema_id and old.version < version
        if is_replaced and not state.referrers(Place(old.subject, old.version), with_deleted=True):
            records.append((old.key.encode(), None))
    records.append((value.key.encode(), value.encode()))
    references = (subject_part(qualified(wanted.subject, each.subject)) for each in wanted.content.references)
    return Plan(
        Registered(value, is_new=True),
        records,
        writes=frozenset({subject_part(wanted.subject), hash_part(wanted.context, md5)}),
        reads=frozenset({SETTINGS, *references} - {subject_part(wanted.subject)}),
    )


def _next_id(ids: Ids, context: str) -> int:
    try:
        return ids.next(context)
    except OverflowError as error:
        raise RegistryError(Code.STORE, str(error)) from None


def registered_already(state: State, wanted: Wanted, settings: RegisterSettings) -> Steps[SchemaValue | None]:
    """Return the version that a registration leads to without a change, also where changes are not allowed."""
    config = state.config_in_scope(wanted.subject)
    if config.has_defaults_or_overrides or not wanted.has_text:
        return None
    found = yield from _look_up(state, wanted, config, settings.normalizes, with_deleted=False)
    if found is None:
        return None
    if wanted.version in (0, LATEST):
        return found if wanted.id in (NO_ID, found.id) else None
    if found.id != wanted.id:
        return None
    if found.version == wanted.version:
        return found
    # An import may have given the schema to several versions.
    other = state.version(wanted.subject, wanted.version)
    return other if other is not None and other.id == found.id and other.md5 == found.md5 else None


def _check_mode(state: State, wanted: Wanted) -> None:
    mode = state.mode_in_scope(wanted.subject)
    where = f"Subject {wanted.subject} in context {SubjectName.parse(wanted.subject).prefix}"
    if mode.is_read_only:
        raise not_permitted(f"{where} is in read-only mode")
    if wanted.id != NO_ID:
        if not mode.is_import:
            raise not_permitted(f"{where} is not in import mode")
    elif mode is not Mode.READWRITE:
        raise not_permitted(f"{where} is not in read-write mode")


def _populated(wanted: Wanted, config: Config, newest: SchemaValue | None, new_version: int) -> Wanted:
    """Return the request with the text of the newest version if it has none, and with merged metadata and rules."""
    content = wanted.content
    if not wanted.has_text:
        if newest is None:
            raise invalid_schema("Empty schema")
        old = newest.content
        content = content._replace(schema_type=old.schema_type, text=old.text, references=old.references)
    content = with_settings(content, config, newest, new_version, is_version_named=wanted.version != 0)
    return replace(wanted, content=content)


def with_settings(
    content: SchemaContent,
    config: Config,
    newest: SchemaValue | None,
    new_version: int | None,
    *,
    is_version_named: bool,
) -> SchemaContent:
    """Return the content with its metadata and rules, or those of the newest version, between the defaults and the
    overrides of the settings.
    """
    old = newest.content if newest is not None else None
    metadata, rules = content.metadata, content.rule_set
    if old is not None:
        metadata = old.metadata if metadata is None else metadata
        rules = old.rule_set if rules is None else rules
    metadata = merged_metadata(merged_metadata(config.default_metadata, metadata), config.override_metadata)
    rules = merged_rule_sets(merged_rule_sets(config.default_rule_set, rules), config.override_rule_set)
    has_version = metadata is not None and metadata.value_of(VERSION_PROPERTY) is not None
    if new_version is not None and (is_version_named or has_version):
        metadata = (metadata or Metadata()).with_property(VERSION_PROPERTY, str(new_version))
    if metadata is None and rules is None:
        return content
    return content._replace(metadata=metadata, rule_set=rules)


def _found_by_hash(state: State, wanted: Wanted) -> tuple[int, SchemaValue | None]:
    """Return the id of the schema in its context (else that of the request), and the version of the subject with it."""
    schema_id = state.id_of(wanted.context, wanted.content.md5())
    if schema_id is None or wanted.id not in (NO_ID, schema_id):
        return wanted.id, None
    version = state.holders(wanted.context, schema_id).get(wanted.subject)
    if wanted.version == 0 and version is not None:
        found = state.version(wanted.subject, version)
        if found is not None:
            return schema_id, found
    return schema_id, None


def _check_id(state: State, wanted: Wanted, schema_id: int) -> None:
    """Raise RegistryError if the id belongs to another schema of the context."""
    for subject, version in state.holders(wanted.context, schema_id).items():
        holder = state.version(subject, version, with_deleted=True)
        if holder is not None and holder.content != wanted.content:
            context = SubjectName.parse(wanted.subject).prefix
            raise not_permitted(f"Overwrite new schema with id {schema_id} in context {context} is not permitted.")
        return


def incompatibilities(
    state: State, parsed: Parsed, config: Config, undeleted: Sequence[SchemaValue]
) -> Steps[list[str]]:
    """Return Confluent's messages about a schema that may not follow the versions, in ascending order."""
    content = parsed.wanted.content
    problems: list[str] = []
    is_strict = state.validates_fields(config)
    newest = undeleted[-1].content.metadata if undeleted else None
    if is_strict:
        own = content.metadata.reserved_fields if content.metadata is not None else ()
        before = newest.reserved_fields if newest is not None else ()
        problems += [
            f"The new schema has reserved field {name} removed from its metadata which is present in the old schema's "
            "metadata."
            for name in before
            if name not in own
        ]
        conflicts: list[str] = yield HasFields(parsed.source, own)
        problems += [f"The new schema has field that conflicts with the reserved field {name}." for name in conflicts]
    group = config.compatibility_group
    previous = [value for value in undeleted if not group or _group(value.content, group) == _group(content, group)]
    level = Level.__members__.get((config.compatibility_level or "").upper(), Level.BACKWARD)
    policy = Policy.LENIENT if config.compatibility_policy == Policy.LENIENT.value else Policy.STRICT
    if level is not Level.NONE and previous:
        checked = previous if level.is_transitive else previous[-1:]
        try:
            sources = tuple((value.version, source_of(state, value)) for value in checked)
            found: list[str] = yield Compare(parsed.source, sources, level, policy)
        except InvalidSchema as error:
            raise invalid_schema(str(error)) from None
        problems += found
    if problems:
        problems.append(f"{{validateFields: '{str(is_strict).lower()}', compatibility: '{level.value}'}}")
    return problems


def _group(content: SchemaContent, name: str) -> str | None:
    return None if content.metadata is None else content.metadata.value_of(name)


def look_up(state: State, wanted: Wanted, *, normalizes: bool, with_deleted: bool) -> Steps[SchemaValue | None]:
    """Return the version of a subject that has a schema; of any context if the subject names none."""
    names = [wanted.subject]
    name = SubjectName.parse(wanted.subject)
    if name.is_default:
        names += [SubjectName(context, name.subject).text for context in state.contexts]
    for subject in names:
        try:
            found = yield from _look_up_with_settings(
                state, replace(wanted, subject=subject), normalizes=normalizes, with_deleted=with_deleted
            )
        except RegistryError:
            if subject == wanted.subject:
                raise
            continue
        if found is not None:
            return found
    return None


def _look_up_with_settings(
    state: State, wanted: Wanted, *, normalizes: bool, with_deleted: bool
) -> Steps[SchemaValue | None]:
    config = state.config_in_scope(wanted.subject)
    found = yield from _look_up(state, wanted, config, normalizes, with_deleted=with_deleted)
    newest = state.latest(wanted.subject)
    if found is not None or newest is None:
        return found
    # Registration would have given it the metadata and rules of the newest version.
    content = with_settings(wanted.content, config, newest, None, is_version_named=False)
    if content == wanted.content:
        return None
    whole = replace(wanted, content=content)
    found = yield from _look_up(state, whole, config, normalizes, with_deleted=with_deleted)
    return found


def _look_up(
    state: State, wanted: Wanted, config: Config, normalizes: bool, *, with_deleted: bool
) -> Steps[SchemaValue | None]:
    if not wanted.has_text:
        return None
    is_latest_only = wanted.version == LATEST
    parsed = yield from parse(state, wanted, config, is_new=False, normalizes=normalizes)
    if is_latest_only:
        newest = state.latest(wanted.subject)
        found = yield from find_same(state, parsed, [newest] if newest is not None else [])
        return found
    schema_id = state.id_of(wanted.context, parsed.wanted.content.md5())
    if schema_id is not None:
        version = state.holders(wanted.context, schema_id).get(wanted.subject)
        if version is not None:
            value = state.version(wanted.subject, version, with_deleted=with_deleted)
            if value is not None:
                return value
    values = [each for each in reversed(state.versions(wanted.subject)) if with_deleted or not each.is_deleted]
    found = yield from find_same(state, parsed, values)
    return found


def check_compatibility(
    state: State, wanted: Wanted, previous: Sequence[SchemaValue], *, normalizes: bool
) -> Steps[list[str]]:
    """Return the messages of a compatibility check against versions in ascending order."""
    if not wanted.has_text:
        raise invalid_schema("Empty schema")
    config = state.config_in_scope(wanted.subject)
    is_new = state.validates_new_schemas(config)
    parsed = yield from parse(state, wanted, config, is_new=is_new, normalizes=normalizes)
    problems = yield from incompatibilities(state, parsed, config, previous)
    return problems
