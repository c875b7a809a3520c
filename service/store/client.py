"""The client library's client, with a shorter way for the calls of functions.

The library takes a connection from its pool for every command, gives it back, and is ready to count
and to repeat it, which takes twice as long as to send a call and read the answer. Here a call has
one of a few connections that stay out of the pool.
"""

from typing import Any

from hiredis import pack_command
from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as NoConnection
from redis.exceptions import ResponseError

# A worker has seldom more calls under way; what is beyond it goes back to the pool.
_MOST_KEPT = 16


class FunctionClient(Redis):
    """A client that keeps connections for functions; a call that finds its one lost is repeated."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._kept: list[AbstractConnection] = []

    async def fcall(self, function: str, numkeys: int, *keys_and_args: Any) -> Any:
        """Calls the function. What it does must be safe to repeat."""
        pool: Any = self.connection_pool  # the library does not type the call
        connection = self._kept.pop() if self._kept else await pool.get_connection()
        try:
            return await self._call(connection, ("FCALL", function, numkeys, *keys_and_args))
        except (NoConnection, OSError):
            return await super().fcall(function, numkeys, *keys_and_args)

    async def _call(self, connection: AbstractConnection, command: tuple[Any, ...]) -> Any:
        keep = False
        try:
            await connection.send_packed_command(pack_command(command))
            reply = await connection.read_response()
            keep = True
        except ResponseError:
            keep = True
            raise
        finally:  # one whose call was cut short has been closed by the library
            if keep and len(self._kept) < _MOST_KEPT:
                self._kept.append(connection)
            else:
                await self.connection_pool.release(connection)
        return reply
