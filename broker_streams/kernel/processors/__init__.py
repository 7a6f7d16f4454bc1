"""The processors of all kinds of steps. An import of this package registers them."""

from broker_streams.kernel.processors import aggregate as aggregate
from broker_streams.kernel.processors import foreign_key_join as foreign_key_join
from broker_streams.kernel.processors import processor_api as processor_api
from broker_streams.kernel.processors import session_aggregate as session_aggregate
from broker_streams.kernel.processors import sliding_aggregate as sliding_aggregate
from broker_streams.kernel.processors import stateless as stateless
from broker_streams.kernel.processors import stream_stream_join as stream_stream_join
from broker_streams.kernel.processors import stream_table_join as stream_table_join
from broker_streams.kernel.processors import suppress as suppress
from broker_streams.kernel.processors import table as table
from broker_streams.kernel.processors import table_join as table_join
from broker_streams.kernel.processors import window_aggregate as window_aggregate
