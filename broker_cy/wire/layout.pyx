"""The message classes and the wire format of their versions, made from the tables when first used."""

from cpython.list cimport PyList_GET_ITEM
from cpython.object cimport PyTypeObject
from libc.stdlib cimport calloc, free

from uuid import UUID as PyUUID

from broker_cy.core.errors import WireError

cdef extern from "Python.h":
    object PyType_GenericAlloc(PyTypeObject* cls, Py_ssize_t items)

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member

# The number of bits in the decoder's mask of the known tags that were read.
cdef int TAGGED_FIELDS_MAX = 64

KINDS = {
    "bool": BOOL, "int8": INT8, "int16": INT16, "uint16": UINT16, "int32": INT32, "uint32": UINT32, "int64": INT64,
    "float64": FLOAT64, "uuid": UUID, "string": STRING, "bytes": BYTES, "records": BYTES,
}

cdef object ZERO_UUID = PyUUID(int=0)


cdef Py_ssize_t slot_offset(type cls, str attribute) except -1:
    """The position of the slot in an object of `cls`, from its member descriptor."""
    descriptor = cls.__dict__[attribute]
    if type(descriptor).__name__ != "member_descriptor":
        raise TypeError(f"{cls.__name__}.{attribute} is not a slot")
    return (<PyMemberDescrObject*><PyObject*>descriptor).d_member.offset


cdef class Message:
    """Base of all message classes: attributes are slots; `==` compares the type and all attributes."""

    __hash__ = None

    def __init__(self, **fields):
        cdef Layout layout = type(self)._layout
        cdef Py_ssize_t i
        for name, value in fields.items():
            if name == "_unknown_tags":
                set_slot(self, layout.offsets[layout.count], value)
                continue
            found = layout.index.get(name)
            if found is None:
                raise TypeError(f"{layout.name} has no field {name!r}; it has {', '.join(layout.attributes)}")
            i = found
            set_slot(self, layout.offsets[i], value)
        for i in range(layout.count):
            if slot_at(self, layout.offsets[i])[0] == NULL:
                set_slot(self, layout.offsets[i], layout.new_default(i))
        if slot_at(self, layout.offsets[layout.count])[0] == NULL:
            set_slot(self, layout.offsets[layout.count], ())

    def __eq__(self, other):
        if type(self) is not type(other):
            return NotImplemented
        cdef Layout layout = type(self)._layout
        cdef Py_ssize_t i
        for i in range(layout.count + 1):
            if get_slot(self, layout.offsets[i]) != get_slot(other, layout.offsets[i]):
                return False
        return True

    def __reduce__(self):
        # For copy and pickle: Cython's own method would lose the slots, because they belong to a subclass that it does not know.
        cdef Layout layout = type(self)._layout
        names = (*layout.attributes, "_unknown_tags")
        return restore, (type(self), {name: getattr(self, name) for name in names})

    def __repr__(self):
        cdef Layout layout = type(self)._layout
        parts = [f"{name}={getattr(self, name)!r}" for name in layout.attributes]
        if self._unknown_tags:
            parts.append(f"_unknown_tags={self._unknown_tags!r}")
        return f"{type(self).__name__}({', '.join(parts)})"


def structures(type cls not None, *columns):
    """A list of messages of one class, given the values of their fields: one column for each field, in the order of the schema.
    For an array of very many structures, it takes a fifth of the time of the constructor. Raises TypeError if there are other
    columns than fields, and ValueError if they differ in length.
    """
    cdef Layout layout = layout_of(cls)
    cdef list lists = [list(column) for column in columns]
    cdef list values
    cdef list made = []
    cdef Py_ssize_t i, field
    cdef object message
    if len(lists) != layout.count:
        raise TypeError(f"{layout.name} has the fields {', '.join(layout.attributes)}; there are {len(lists)} columns")
    for values in lists:
        if len(values) != len(<list>lists[0]):
            raise ValueError(f"the columns of {layout.name} differ in length")
    for i in range(len(<list>lists[0]) if lists else 0):
        message = PyType_GenericAlloc(<PyTypeObject*>cls, 0)
        for field in range(layout.count):
            set_slot(message, layout.offsets[field], <object>PyList_GET_ITEM(<list>PyList_GET_ITEM(lists, field), i))
        set_slot(message, layout.offsets[layout.count], ())
        made.append(message)
    return made


def restore(cls, fields):
    """Restore a message for `Message.__reduce__`: pickle cannot pass keyword arguments."""
    return cls(**fields)


cdef class Layout:
    """One structure: its class, the positions of its slots, its defaults. Made by `make_class`."""

    def __dealloc__(self):
        free(self.offsets)

    cdef object new_default(self, Py_ssize_t field):
        default = self.defaults[field]
        if self.is_constant(field):
            return default
        return type(default)()

    cdef bint is_constant(self, Py_ssize_t field) except -1:
        """Whether the default is immutable, and so can be shared by all messages."""
        return not isinstance(self.defaults[field], (list, Message))

    cdef bint is_default(self, Py_ssize_t field, object value) except -1:
        default = self.defaults[field]
        if value is default:
            return True
        if value is None or default is None:
            return False
        if type(default) is list:
            return len(value) == 0
        return value == default

    cdef Node node(self, int version):
        # Each message asks: the nodes that were made are of versions that exist.
        if 0 <= version < len(self.nodes):
            node = self.nodes[version]
            if node is not None:
                return <Node>node
        if version not in self.spec.versions:
            low, high = self.spec.versions.low, self.spec.versions.high
            existing = f"{low} to {high} exist" if high >= low else "the message has no versions"
            raise WireError(f"version {version} does not exist; {existing}", self.name)
        node = self.nodes[version] = compile_node(self, version)
        return <Node>node


cdef object default_of(object field, Layout child):
    """The Python default of a field; if it is a list or a message, each object gets a new one."""
    text = field.default
    if text == "null":
        return None
    if field.is_array:
        return []
    if child is not None:
        return child.cls()
    if field.type == "string":
        return "" if text is None else text.strip('"')
    if field.type == "bytes":
        return b""
    if field.type == "records":
        return None if field.nullable.high >= field.nullable.low else b""
    if field.type == "uuid":
        return ZERO_UUID
    if field.type == "bool":
        return text == "true"
    if field.type == "float64":
        return float(text or 0)
    return int(text or "0", 0)


cdef Layout make_layout(object spec, object struct, dict made, str module):
    """Make the layout of `struct`, after those of the structures in it; `made` has the existing ones, by name."""
    cdef Layout layout = Layout.__new__(Layout)
    cdef list children = []
    cdef Py_ssize_t i
    for field in struct.fields:
        if field.type in KINDS:
            children.append(None)
            continue
        if field.type not in made:
            made[field.type] = make_layout(spec, spec.structs[field.type], made, module)
        children.append(made[field.type])
    is_root = struct is spec.root
    layout.spec = spec
    layout.name = struct.name
    layout.attributes = [field.attribute for field in struct.fields]
    layout.child_layouts = children
    layout.index = {name: i for i, name in enumerate(layout.attributes)}
    layout.count = len(children)
    layout.nodes = [None] * (spec.versions.high + 1)
    members = {
        "__slots__": (*layout.attributes, "_unknown_tags"),
        "__module__": module,
        "__qualname__": struct.name if is_root else f"{spec.name}.{struct.name}",
        "_layout": layout,
    }
    if is_root:
        members["API_KEY"] = spec.key
        members["VERSIONS"] = (spec.versions.low, spec.versions.high)
        members.update({name: (<Layout>nested).cls for name, nested in made.items()})
    layout.cls = type(struct.name, (Message,), members)
    layout.offsets = <Py_ssize_t*>calloc(layout.count + 1, sizeof(Py_ssize_t))
    if layout.offsets == NULL:
        raise MemoryError
    for i, name in enumerate(members["__slots__"]):
        layout.offsets[i] = slot_offset(layout.cls, name)
    layout.ignorable = [field.ignorable for field in struct.fields]
    layout.defaults = [default_of(field, child) for field, child in zip(struct.fields, children)]
    return layout


def make_class(spec, module):
    """The message class for a `tables.MessageSpec`; the classes of the structures in it are its attributes."""
    return make_layout(spec, spec.root, {}, module).cls


cdef Node compile_node(Layout layout, int version):
    cdef Node node = Node.__new__(Node)
    cdef Op op
    cdef object field
    struct = layout.spec.root if layout.name == layout.spec.name else layout.spec.structs[layout.name]
    node.layout = layout
    node.version = version
    node.flexible = version in layout.spec.flexible
    node.children = []
    node.body = <Op*>calloc(layout.count + 1, sizeof(Op))
    node.tagged = <Op*>calloc(layout.count + 1, sizeof(Op))
    node.absent = <Op*>calloc(layout.count + 1, sizeof(Op))
    if node.body == NULL or node.tagged == NULL or node.absent == NULL:
        raise MemoryError
    node.size_min = 1 if node.flexible else 0
    # By tag, as Kafka orders tagged fields; the stable sort keeps the order of all others.
    for field in sorted(struct.fields, key=lambda field: field.tag if version in field.tagged else -1):
        op = compile_op(node, layout, field, layout.index[field.attribute], version)
        if version not in field.versions:
            node.absent[node.absent_count] = op
            node.absent_count += 1
        elif op.tag >= 0:
            node.tagged[node.tagged_count] = op
            node.tagged_count += 1
        else:
            node.body[node.body_count] = op
            node.body_count += 1
            node.size_min += size_min(&op)
    if node.tagged_count > TAGGED_FIELDS_MAX:
        raise ValueError(f"{layout.name} has more than {TAGGED_FIELDS_MAX} tagged fields")
    return node


cdef Op compile_op(Node node, Layout layout, object field, int index, int version):
    cdef Op op
    cdef Node child
    op.is_array = field.is_array
    op.nullable = version in field.nullable
    op.compact = node.flexible and not field.never_flexible
    op.tag = field.tag if version in field.tagged else -1
    op.field = index
    op.offset = layout.offsets[index]
    op.constant = <PyObject*>layout.defaults[index] if layout.is_constant(index) else NULL
    op.child = NULL
    op.kind = KINDS.get(field.type, STRUCT)
    if op.kind == STRUCT and version in field.versions:
        child = (<Layout>layout.child_layouts[index]).node(version)
        node.children.append(child)
        op.child = <PyObject*>child
    op.element_size = element_size_min(&op)
    if op.is_array and op.element_size == 0 and version in field.versions:
        # Such elements would cost a client no bytes, but the broker memory; Kafka has none.
        raise ValueError(f"{layout.name}.{field.name}: an element has no bytes in version {version}")
    return op


cdef Py_ssize_t element_size_min(Op* op) noexcept:
    """The fewest bytes of a value, or of one element of an array."""
    if op.kind == BOOL or op.kind == INT8:
        return 1
    if op.kind == INT16 or op.kind == UINT16:
        return 2
    if op.kind == INT32 or op.kind == UINT32:
        return 4
    if op.kind == INT64 or op.kind == FLOAT64:
        return 8
    if op.kind == UUID:
        return 16
    if op.kind == STRING:
        return 1 if op.compact else 2
    if op.kind == BYTES:
        return 1 if op.compact else 4
    return (<Node>op.child).size_min if op.child != NULL else 0


cdef Py_ssize_t size_min(Op* op) noexcept:
    if op.is_array:
        return 1 if op.compact else 4
    if op.kind == STRUCT and op.nullable:
        return 1
    return op.element_size


cdef class Node:
    """The ops of one structure in one version."""

    def __dealloc__(self):
        free(self.body)
        free(self.tagged)
        free(self.absent)


cdef object located(object error, Node node, Op* op):
    """`error` with the field's name added in front of the path that it already has."""
    name = node.layout.attributes[op.field]
    path = error.field
    error.field = name if not path else name + path if path.startswith("[") else f"{name}.{path}"
    return error


cdef Layout layout_of(object cls):
    if not (isinstance(cls, type) and issubclass(cls, Message) and cls is not Message):
        raise TypeError(f"{cls!r} is not a message class")
    return cls._layout


cdef int unset() except -1:
    raise WireError("the attribute has no value: it was deleted, or the message was never initialised")
