// SPDX-License-Identifier: Apache-2.0
#include "tessera/status.h"

#include <cstdio>
#include <cstdlib>

namespace tessera {

const char* name_of(Code code) {
  switch (code) {
    case Code::ok: return "ok";
    case Code::invalid_argument: return "invalid_argument";
    case Code::not_supported: return "not_supported";
    case Code::out_of_memory: return "out_of_memory";
    case Code::communication_error: return "communication_error";
    case Code::timed_out: return "timed_out";
    case Code::io_error: return "io_error";
    case Code::corrupt: return "corrupt";
    case Code::divergent: return "divergent";
    case Code::hazard: return "hazard";
    case Code::cancelled: return "cancelled";
  }
  return "?";
}

void assertion_failed(const char* condition, const char* message, const char* file, int line) {
  std::fprintf(stderr, "tessera: assertion failed: %s (%s) at %s:%d\n", message, condition, file,
               line);
  std::abort();
}

}  // namespace tessera
