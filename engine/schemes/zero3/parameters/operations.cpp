// SPDX-License-Identifier: Apache-2.0
#include "engine/schemes/zero3/parameters/operations.h"

#include <utility>

namespace tessera {

Result<BufferId> Operations::allocate_in(std::string_view directory, Memory memory,
                                         const std::string& name, Bytes bytes,
                                         MemoryClass memory_class, const Cause& cause) {
  return issuer_.allocated(issuer_.runtime().allocate({.bytes = bytes,
                                                       .memory = memory,
                                                       .memory_class = memory_class,
                                                       .stream = issuer_.compute_stream(),
                                                       .where = issuer_.everyone(),
                                                       .cause = cause,
                                                       .name = name,
                                                       .directory = directory}),
                           issuer_.everyone());
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
