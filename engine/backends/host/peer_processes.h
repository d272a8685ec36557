// SPDX-License-Identifier: Apache-2.0
// Watches the processes of the other ranks that run on this machine, so that their death is known
// at once, even if the transport does not notice it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tessera/types.h"

namespace tessera {

/// A process id, and the namespace in which it is valid.
struct ProcessName {
  std::uint64_t place = 0;  // the same for processes that can see each other's ids
  std::int64_t id = 0;

  static ProcessName own();
};

class PeerProcesses {
 public:
  PeerProcesses() = default;
  /// `names` by rank. Ranks elsewhere, and threads of this process, are not watched.
  explicit PeerProcesses(std::span<const ProcessName> names);
  PeerProcesses(PeerProcesses&& other) noexcept;
  PeerProcesses& operator=(PeerProcesses&& other) noexcept;
  ~PeerProcesses();

  /// The first rank whose process has ended, or -1.
  Rank dead() const;
  std::int64_t id_of(Rank rank) const;

 private:
  struct Watched {
    Rank rank = 0;
    std::int64_t id = 0;
    int file = -1;  // a pidfd: readable when the process has ended
  };
  std::vector<Watched> watched_;
};

}  // namespace tessera
