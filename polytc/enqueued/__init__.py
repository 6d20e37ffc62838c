"""Programs on arrays that are in a device's memory already: enqueued on the caller's queue, without copies, asynchronously."""

from polytc.enqueued.program import Enqueued, queue_of

__all__ = ["Enqueued", "queue_of"]
