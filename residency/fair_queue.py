"""A queue that takes turns: first between clients, then between a client's connections, then by arrival."""

from collections import OrderedDict
from collections.abc import Hashable, Iterator


class FairQueue:
    """Holds keys; who asks for much waits behind itself, not before others."""

    def __init__(self) -> None:
        self._clients: OrderedDict[Hashable, OrderedDict[Hashable, OrderedDict[int, None]]] = OrderedDict()
        self._places: dict[int, tuple[Hashable, Hashable]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def push(self, key: int, client: Hashable, connection: Hashable) -> None:
        self._places[key] = (client, connection)
        self._clients.setdefault(client, OrderedDict()).setdefault(connection, OrderedDict())[key] = None

    def head(self) -> int | None:
        for connections in self._clients.values():
            for keys in connections.values():
                return next(iter(keys))
        return None

    def pop(self) -> int:
        """Take the head; its client and its connection go behind the others."""
        key = self.head()
        if key is None:
            raise IndexError("pop from an empty queue")
        client, connection = self._places[key]
        self.remove(key)
        if connections := self._clients.get(client):
            self._clients.move_to_end(client)
            if connection in connections:
                connections.move_to_end(connection)
        return key

    def remove(self, key: int) -> None:
        client, connection = self._places.pop(key)
        connections = self._clients[client]
        keys = connections[connection]
        del keys[key]
        if not keys:
            del connections[connection]
        if not connections:
            del self._clients[client]

    def replace(self, old: int, new: int) -> None:
        """`new` takes over the very place of `old`."""
        client, connection = self._places.pop(old)
        self._places[new] = (client, connection)
        keys = self._clients[client][connection]
        self._clients[client][connection] = OrderedDict((new if k == old else k, None) for k in keys)

    def __iter__(self) -> Iterator[int]:
        """In the order in which they would be taken."""
        clients = [[list(keys) for keys in connections.values()] for connections in self._clients.values()]
        while clients:
            connections = clients.pop(0)
            keys = connections.pop(0)
            yield keys.pop(0)
            if keys:
                connections.append(keys)
            if connections:
                clients.append(connections)
