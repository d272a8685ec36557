// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "tessera/zero3.h"

namespace tessera {

std::string LiveParameter::why() const {
  switch (reason) {
    case Reason::active: return fmt::format("active in module {}", module);
    case Reason::prefetched:
      return fmt::format("prefetched for visit {}, of module {}", visit, module);
    case Reason::kept: return fmt::format("kept for visit {}, of module {}", visit, module);
    case Reason::persistent: return "persistent: small enough to stay";
    case Reason::left_over: break;
  }
  return "left over: nothing known needs it";
}

}  // namespace tessera
