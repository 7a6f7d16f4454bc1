"""Changes of ACLs: CreateAcls (30) and DeleteAcls (31), and the description of them (29), with the rules and messages
of Kafka's AclApis and AclControlManager.

The records are in the image's `kept`, by id. To look for an entry there, or for those that a filter selects, takes
about 10 ms with 100,000 ACLs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from broker_cy.controller.operation import RECORDS_PER_STEP_MAX, MetadataStep, Operation, OperationContext
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.metadata.authors import NOBODY, Author, Tags, tag_of
from broker_cy.metadata.image import MetadataImage
from broker_cy.metadata.records import VersionedRecord
from broker_cy.security.acls import Binding, Filter, PatternType, Permission, ResourceType, check_new
from broker_cy.security.acls import Operation as AclOperation
from broker_cy.wire import messages

_Created = messages.CreateAclsResponse.AclCreationResult
_Deleted = messages.DeleteAclsResponse.DeleteAclsFilterResult
_Matching = messages.DeleteAclsResponse.DeleteAclsMatchingAcl
_Resource = messages.DescribeAclsResponse.DescribeAclsResource
_Described = messages.DescribeAclsResponse.AclDescription


@dataclass(slots=True)
class CreateAcls(Operation[list[Any]]):
    """Create the AclCreations of a request that do not exist yet. The reply has one result for each, in their order.
    `by` is the requester.
    """

    creations: Sequence[Any]
    by: Author = NOBODY

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> list[Any]:
        results = []
        wanted: dict[Binding, None] = {}
        for each in self.creations:
            binding = Binding(
                ResourceType(each.resource_type),
                each.resource_name,
                PatternType(each.resource_pattern_type),
                each.principal,
                each.host,
                AclOperation(each.operation),
                Permission(each.permission_type),
            )
            try:
                check_new(binding)
            except KafkaError as error:
                results.append(_Created(error_code=int(error.code), error_message=error.message))
                continue
            results.append(_Created(error_message=""))
            wanted[binding] = None
        names = {binding.name for binding in wanted}
        for record in state.acls() if wanted else ():
            if record.resource_name in names:
                wanted.pop(Binding.of_record(record), None)
        tags = tag_of(self.by)
        step.records += [VersionedRecord(_record(binding, context, tags)) for binding in wanted]
        return results


def _record(binding: Binding, context: OperationContext, tags: Tags) -> Any:
    return messages.AccessControlEntryRecord(
        id=context.new_uuid(),
        resource_type=binding.resource_type,
        resource_name=binding.name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
        _unknown_tags=tags,
    )


@dataclass(slots=True)
class DeleteAcls(Operation[list[Any]]):
    """Delete the ACLs that the filters of a request select. The reply has one result for each filter, in their order;
    an ACL that several filters select is in the results of all of them. `by` is the requester.
    """

    filters: Sequence[Any]
    by: Author = NOBODY

    def run(self, state: MetadataImage, step: MetadataStep, context: OperationContext) -> list[Any]:
        results = []
        removed: dict[Any, None] = {}
        for asked in self.filters:
            wanted = Filter.of_request(asked)
            try:
                wanted.check()
            except KafkaError as error:
                results.append(_Deleted(error_code=int(error.code), error_message=error.message))
                continue
            found = [record for record in state.acls() if wanted.matches(record)]
            removed.update(dict.fromkeys(record.id for record in found))
            if len(removed) > RECORDS_PER_STEP_MAX:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"Cannot remove more than {RECORDS_PER_STEP_MAX} acls in a single delete operation.",
                )
            results.append(_Deleted(error_message=None, matching_acls=[_matching(record) for record in found]))
        tags, record = tag_of(self.by), messages.RemoveAccessControlEntryRecord
        step.records += [VersionedRecord(record(id=each, _unknown_tags=tags)) for each in removed]
        return results


def _matching(record: Any) -> Any:
    return _Matching(
        error_message=None,
        resource_type=record.resource_type,
        resource_name=record.resource_name,
        pattern_type=record.pattern_type,
        principal=record.principal,
        host=record.host,
        operation=record.operation,
        permission_type=record.permission_type,
    )


def describe(records: Iterable[Any], wanted: Filter) -> list[Any]:
    """The resources of a DescribeAclsResponse: the selected ACLs by pattern. Unknown numbers select no ACL."""
    resources: dict[tuple[int, str, int], Any] = {}
    for record in records:
        if wanted.matches(record):
            key = (record.resource_type, record.resource_name, record.pattern_type)
            resource = resources.get(key)
            if resource is None:
                resource = resources[key] = _Resource(
                    resource_type=record.resource_type,
                    resource_name=record.resource_name,
                    pattern_type=record.pattern_type,
                )
            resource.acls.append(
                _Described(
                    principal=record.principal,
                    host=record.host,
                    operation=record.operation,
                    permission_type=record.permission_type,
                )
            )
    return list(resources.values())
