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

Result<EventId> Operations::note(StreamId stream, Cause cause, std::string_view what, Mark mark) {
  cause.module = what;
  return submit(stream, cause, mark);
}

}  // namespace tessera
