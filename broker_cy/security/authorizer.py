"""Authorizes operations, with the semantics of Kafka's StandardAuthorizer (KIP-801), from the ACLs of the metadata.

- A super user may perform every operation, regardless of the ACLs.
- The ACLs that concern a resource are those whose pattern is its name, a prefix of its name, or `*`.
- An entry of these counts if its principal is the client's or `User:*`, and its host is the client's or `*`.
- If one of them denies the operation, it is denied. Otherwise it is allowed if one of them allows it.
- Allowing READ, WRITE, DELETE or ALTER also allows DESCRIBE, and ALTER_CONFIGS also DESCRIBE_CONFIGS. Denying implies
  no other denial.
- If no ACL of any principal concerns the resource, `allow_if_no_acl` decides.

The index has the entries by type of pattern, principal and name. So a decision costs one look-up for the name, for `*`
and for each length of a prefix, with any number of ACLs. The result for all operations is a mask with the bits
`1 << Operation`. Masks are kept for the present `epoch` of the ACLs, at most MASKS_MAX of them.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator
from enum import Enum
from itertools import chain, islice
from typing import Any, Final

from broker_cy.core.classes import NamedTuple
from broker_cy.security.acls import ANY_PRINCIPAL, WILDCARD, Binding, Operation, PatternType, Permission, ResourceType

MASKS_MAX: Final = 100_000
# Entries that ACLs share, by far most of them; one for each host that is named.
SHARED_MAX: Final = 50_000
# Bindings that an explanation lists as nearly matching.
NEAR_MAX: Final = 10
# Other principals on a pattern whose bindings are looked at for that.
SEARCHED_MAX: Final = 1_000

ALL_OPERATIONS: Final = sum(1 << each for each in Operation if each > Operation.ALL)
_IMPLYING_DESCRIBE = frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER})


class Entry(NamedTuple):
    """An ACL without its principal and pattern, and the operations that it allows and denies, as masks."""

    host: str
    operation: Operation
    permission: Permission
    allows: int
    denies: int

    @classmethod
    def of(cls, host: str, operation: Operation, permission: Permission) -> Entry:
        bits = ALL_OPERATIONS if operation is Operation.ALL else (1 << operation) & ALL_OPERATIONS
        if permission is not Permission.ALLOW:
            return cls(host, operation, permission, 0, bits if permission is Permission.DENY else 0)
        if operation in _IMPLYING_DESCRIBE:
            bits |= 1 << Operation.DESCRIBE
        elif operation is Operation.ALTER_CONFIGS:
            bits |= 1 << Operation.DESCRIBE_CONFIGS
        return cls(host, operation, permission, bits, 0)


Entries = tuple[Entry, ...]


class Patterns:
    """The entries on the patterns of one kind (literal or prefixed) of one type of resource.

    Invariant: `names` counts the ACLs on each name, of all principals; `lengths` has each length of a name once,
    ascending.
    """

    __slots__ = ("_of_length", "by_principal", "lengths", "names")

    def __init__(self) -> None:
        self.by_principal: dict[str, dict[str, Entries]] = {}
        self.names: dict[str, int] = {}
        self.lengths: list[int] = []
        self._of_length: dict[int, int] = {}  # distinct names

    def add(self, principal: str, name: str, entry: Entry) -> None:
        of_name = self.by_principal.get(principal)
        if of_name is None:
            of_name = self.by_principal[principal] = {}
        before = of_name.get(name)
        of_name[name] = (entry,) if before is None else (*before, entry)
        count = self.names.get(name, 0)
        self.names[name] = count + 1
        if not count:
            length = len(name)
            self._of_length[length] = self._of_length.get(length, 0) + 1
            if self._of_length[length] == 1:
                insort(self.lengths, length)

    def remove(self, principal: str, name: str, entry: Entry) -> None:
        """Remove one such ACL; identical ones stay. Raises ValueError without such an ACL."""
        of_name = self.by_principal.get(principal, {})
        left = list(of_name.get(name, ()))
        left.remove(entry)
        if left:
            of_name[name] = tuple(left)
        else:
            del of_name[name]
            if not of_name:
                del self.by_principal[principal]
        self.names[name] -= 1
        if not self.names[name]:
            del self.names[name]
            length = len(name)
            self._of_length[length] -= 1
            if not self._of_length[length]:
                del self._of_length[length]
                self.lengths.remove(length)


class Reason(Enum):
    """Why an operation is allowed or denied."""

    SUPER_USER = "the principal is one of super.users"
    DENIED = "an ACL denies it"
    ALLOWED = "an ACL allows it"
    NO_MATCH = "ACLs concern the resource, and none of them allows it"
    NO_ACL_ALLOWED = "no ACL concerns the resource, and allow.everyone.if.no.acl.found is true"
    NO_ACL_DENIED = "no ACL concerns the resource, and allow.everyone.if.no.acl.found is false"


class Explanation(NamedTuple):
    """A decision with the binding that made it. If none did, `near` has those that concern the resource and name
    either the principal or the operation, NEAR_MAX at most.
    """

    allowed: bool
    reason: Reason
    binding: Binding | None = None
    near: tuple[Binding, ...] = ()


class Authorizer:
    """The ACLs of the cluster, by `change` and `replace`, and decisions on them. See the module."""

    def __init__(self, super_users: Iterable[str] = (), *, allow_if_no_acl: bool = False) -> None:
        self.super_users = frozenset(super_users)
        self.allow_if_no_acl = allow_if_no_acl
        # Grows with each change of the ACLs: decisions of an earlier epoch are no longer valid.
        self.epoch = 0
        self._literal: dict[int, Patterns] = {each: Patterns() for each in ResourceType}
        self._prefixed: dict[int, Patterns] = {each: Patterns() for each in ResourceType}
        self._shared: dict[tuple[str, int, int], Entry] = {}
        self._masks: dict[tuple[str, str], dict[tuple[int, str], int]] = {}
        self._mask_count = 0

    # --- the ACLs

    def change(self, changes: Iterable[tuple[Any, Any]]) -> None:
        """Apply changes of AccessControlEntryRecords, as (before, after); None stands for no record."""
        is_changed = False
        for before, after in changes:
            is_changed = True
            if before is not None and (patterns := self._patterns(before)) is not None:
                patterns.remove(before.principal, before.resource_name, self._entry(before))
            if after is not None:
                self._add(after)
        if is_changed:
            self.forget()

    def replace(self, records: Iterable[Any]) -> None:
        """Take these AccessControlEntryRecords in place of all ACLs."""
        for each in ResourceType:
            self._literal[each] = Patterns()
            self._prefixed[each] = Patterns()
        for record in records:
            self._add(record)
        self.forget()

    def forget(self) -> None:
        """Have all decisions made again, also those that connections keep."""
        self.epoch += 1
        self._masks.clear()
        self._mask_count = 0

    def _patterns(self, record: Any) -> Patterns | None:
        if record.pattern_type == PatternType.LITERAL:
            return self._literal.get(record.resource_type)
        return self._prefixed.get(record.resource_type) if record.pattern_type == PatternType.PREFIXED else None

    def _entry(self, record: Any) -> Entry:
        key = (record.host, record.operation, record.permission_type)
        found = self._shared.get(key)
        if found is None:
            if len(self._shared) >= SHARED_MAX:
                self._shared.clear()
            found = Entry.of(record.host, Operation(record.operation), Permission(record.permission_type))
            self._shared[key] = found
        return found

    def _add(self, record: Any) -> None:
        patterns = self._patterns(record)
        if patterns is not None:
            patterns.add(record.principal, record.resource_name, self._entry(record))

    # --- decisions

    def mask(self, principal: str, host: str, resource_type: int, name: str) -> int:
        """The operations that a client is allowed on a resource, as bits `1 << Operation`. `host` is as
        `acls.host_text` writes it.
        """
        masks = self._masks.get((principal, host))
        if masks is not None:
            found = masks.get((resource_type, name))
            if found is not None:
                return found
        found = self._mask(principal, host, resource_type, name)
        if self._mask_count >= MASKS_MAX:
            self._masks.clear()
            self._mask_count = 0
        self._mask_count += 1
        self._masks.setdefault((principal, host), {})[resource_type, name] = found
        return found

    def allows(self, principal: str, host: str, operation: int, resource_type: int, name: str) -> bool:
        return bool(self.mask(principal, host, resource_type, name) >> operation & 1)

    def _mask(self, principal: str, host: str, resource_type: int, name: str) -> int:
        if principal in self.super_users:
            return ALL_OPERATIONS
        allows = denies = 0
        for entries in self._concerning(principal, resource_type, name):
            for entry in entries:
                if entry.host in (WILDCARD, host):
                    allows |= entry.allows
                    denies |= entry.denies
        if not allows and not denies and self.allow_if_no_acl and not self._has_acl(resource_type, name):
            return ALL_OPERATIONS
        return allows & ~denies

    def _concerning(self, principal: str, resource_type: int, name: str) -> Iterator[Entries]:
        """The entries of the principal, and of `User:*`, on the patterns that concern the resource."""
        literal, prefixed = self._literal[resource_type], self._prefixed[resource_type]
        for who in (principal,) if principal == ANY_PRINCIPAL else (principal, ANY_PRINCIPAL):
            of_name = literal.by_principal.get(who)
            if of_name is not None:
                for each in (name,) if name == WILDCARD else (name, WILDCARD):
                    if each in of_name:
                        yield of_name[each]
            of_name = prefixed.by_principal.get(who)
            if of_name is not None:
                for length in prefixed.lengths:
                    if length > len(name):
                        break
                    found = of_name.get(name[:length])
                    if found is not None:
                        yield found

    def _has_acl(self, resource_type: int, name: str) -> bool:
        """Whether an ACL of any principal concerns the resource."""
        literal, prefixed = self._literal[resource_type], self._prefixed[resource_type]
        if name in literal.names or WILDCARD in literal.names:
            return True
        return any(name[:length] in prefixed.names for length in prefixed.lengths if length <= len(name))

    def allows_some(self, principal: str, host: str, operation: int, resource_type: int) -> bool:
        """Whether the client may have a right to the operation on some resource of the type (KIP-679): Kafka's
        Authorizer.authorizeByResourceType, with its rules. Implied operations do not count.
        """
        # Kafka asks for a name, too, for super users and for settings without ACLs.
        if self.allows(principal, host, operation, resource_type, "hardcode"):
            return True
        bit = 1 << operation
        allowed: list[tuple[str, bool]] = []
        denied: dict[bool, set[str]] = {False: set(), True: set()}
        for is_prefixed, patterns in ((False, self._literal[resource_type]), (True, self._prefixed[resource_type])):
            for who in (principal, ANY_PRINCIPAL):
                for name, entries in patterns.by_principal.get(who, {}).items():
                    for entry in entries:
                        if entry.host not in (WILDCARD, host) or entry.operation not in (operation, Operation.ALL):
                            continue
                        if entry.denies & bit:
                            denied[is_prefixed].add(name)
                        elif entry.allows & bit:
                            allowed.append((name, is_prefixed))
        if WILDCARD in denied[False]:
            return False
        return any(
            (name == WILDCARD and not is_prefixed)
            or not (
                (not is_prefixed and name in denied[False])
                or any(name[:length] in denied[True] for length in range(1, len(name) + 1))
            )
            for name, is_prefixed in allowed
        )

    def explain(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Explanation:
        """The decision of `allows`, with its reason."""
        if principal in self.super_users:
            return Explanation(True, Reason.SUPER_USER)
        bit = 1 << operation
        allowing = None
        for binding, entry in self._bindings(resource_type, name, (principal, ANY_PRINCIPAL)):
            if entry.host in (WILDCARD, host):
                if entry.denies & bit:
                    return Explanation(False, Reason.DENIED, binding)
                if allowing is None and entry.allows & bit:
                    allowing = binding
        if allowing is not None:
            return Explanation(True, Reason.ALLOWED, allowing)
        if not self._has_acl(resource_type, name):
            reason = Reason.NO_ACL_ALLOWED if self.allow_if_no_acl else Reason.NO_ACL_DENIED
            return Explanation(self.allow_if_no_acl, reason)
        return Explanation(False, Reason.NO_MATCH, None, self._near(principal, bit, resource_type, name))

    def matching(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Iterator[Binding]:
        """The bindings that allow or deny the operation, in the order of `explain`: it names the first that denies, or
        else the first that allows.
        """
        bit = 1 << operation
        for binding, entry in self._bindings(resource_type, name, (principal, ANY_PRINCIPAL)):
            if entry.host in (WILDCARD, host) and (entry.allows | entry.denies) & bit:
                yield binding

    def _near(self, principal: str, bit: int, resource_type: ResourceType, name: str) -> tuple[Binding, ...]:
        near = []
        own = (principal, ANY_PRINCIPAL)
        for binding, entry in self._bindings(resource_type, name, own, with_others=True):
            if binding.principal in own or entry.allows & bit:
                near.append(binding)
                if len(near) == NEAR_MAX:
                    break
        return tuple(near)

    def _bindings(
        self, resource_type: ResourceType, name: str, principals: tuple[str, ...], *, with_others: bool = False
    ) -> Iterator[tuple[Binding, Entry]]:
        """The bindings that concern the resource: literal ones, longer prefixes before shorter ones, and those for all
        names. `with_others` adds the bindings of other principals, on each pattern, at the end. They may be very many,
        and the caller may be the loop of a broker, so at most SEARCHED_MAX principals are searched.
        """
        literal, prefixed = self._literal[resource_type], self._prefixed[resource_type]
        places = [(literal, PatternType.LITERAL, name)]
        places += [
            (prefixed, PatternType.PREFIXED, name[:length])
            for length in reversed(prefixed.lengths)
            if length <= len(name)
        ]
        if name != WILDCARD:
            places.append((literal, PatternType.LITERAL, WILDCARD))
        for patterns, pattern_type, pattern in places:
            if pattern not in patterns.names:
                continue
            others = islice(patterns.by_principal, SEARCHED_MAX) if with_others else ()
            for who in dict.fromkeys(chain(principals, others)):
                for entry in patterns.by_principal.get(who, {}).get(pattern, ()):
                    yield (
                        Binding(
                            resource_type, pattern, pattern_type, who, entry.host, entry.operation, entry.permission
                        ),
                        entry,
                    )
