// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/operations.h"

#include <utility>

namespace tessera {

Result<BufferId> Operations::allocate(const std::string& name, Bytes bytes,
                                      MemoryClass memory_class, StreamId stream,
                                      const Cause& cause, Memory memory) {
  return allocate({.bytes = bytes,
                   .memory = memory,
                   .memory_class = memory_class,
                   .stream = stream,
                   .where = {},
                   .cause = cause,
                   .name = name,
                   .directory = {}});
}

// What crosses a link is there for the sake of offloading, whatever asked for it.
Result<EventId> Operations::copy_by_route(StreamId stream, const Cause& why,
                                          CommunicatorId index_in,
                                          const std::vector<RoutedBlocks>& pieces) {
  EventId done;
  for (Copy& copy : copies_by_route(index_in, pieces)) {
    Cause cause = why;
    if (copy.route != CopyRoute::on_device) cause.reason = Reason::offload;
    TESSERA_ASSIGN(done, submit(stream, cause, std::move(copy)));
  }
  return done;
}

Result<EventId> Operations::note(StreamId stream, Cause cause, std::string_view what, Mark mark) {
  cause.module = what;
  return submit(stream, cause, mark);
}

}  // namespace tessera
