from broker_cy.schemas.tables import MessageSpec, StructSpec

Plan = tuple[tuple[str, ...], tuple[tuple[str, Plan], ...]]

def plan_of(spec: MessageSpec, struct: StructSpec) -> Plan | None: ...
