// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/patience.h"

#include <fmt/format.h>

namespace tessera {

Status Patience::until(const std::function<Result<Seen>()>& look,
                       const std::function<std::string()>& what) {
  Time since = time();
  while (true) {
    TESSERA_ASSIGN(const Seen seen, look());
    if (seen == Seen::done) return {};
    if (listens_) TESSERA_TRY(peers_.ended());
    if (listens_ && interrupted_ && interrupted_()) {
      return Status(Code::cancelled, fmt::format("rank {} was asked to stop while it waited for {}",
                                                 peers_.rank(), what()));
    }
    const Time now = time();
    if (seen == Seen::progress) since = now;
    if (now - since > deadline_) {
      return Status(Code::timed_out,
                    fmt::format("rank {} waited {:.1f} s for {}: another rank is dead, hangs, or "
                                "does something else",
                                peers_.rank(), static_cast<double>(deadline_) * 1e-9, what()));
    }
    peers_.idle();
  }
}

}  // namespace tessera
