"""The processors of all kinds of steps. An import of this package registers them."""

from broker_streams.kernel.processors import stateless as stateless
from broker_streams.kernel.processors import stream_stream_join as stream_stream_join
from broker_streams.kernel.processors import table as table
