// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/peer_processes.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace tessera {
namespace {

// FNV-1a.
std::uint64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace

ProcessName ProcessName::own() {
  std::string machine;  // as long as it runs
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), machine);
  struct stat numbering {};  // containers number their processes themselves
  stat("/proc/self/ns/pid", &numbering);
  return {hash_of(machine) ^ static_cast<std::uint64_t>(numbering.st_ino), getpid()};
}

PeerProcesses::PeerProcesses(std::span<const ProcessName> names) {
  const ProcessName own = ProcessName::own();
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const ProcessName& name = names[rank];
    if (name.place != own.place || name.id == own.id) continue;
    const long file = syscall(SYS_pidfd_open, static_cast<pid_t>(name.id), 0U);
    if (file < 0) continue;  // an old kernel
    watched_.push_back({static_cast<Rank>(rank), name.id, static_cast<int>(file)});
  }
}

PeerProcesses::PeerProcesses(PeerProcesses&& other) noexcept
    : watched_(std::exchange(other.watched_, {})) {}

PeerProcesses& PeerProcesses::operator=(PeerProcesses&& other) noexcept {
  std::swap(watched_, other.watched_);
  return *this;
}

PeerProcesses::~PeerProcesses() {
  for (const Watched& peer : watched_) close(peer.file);
}

Rank PeerProcesses::dead() const {
  for (const Watched& peer : watched_) {
    pollfd question{peer.file, POLLIN, 0};
    if (poll(&question, 1, 0) > 0) return peer.rank;
  }
  return -1;
}

std::int64_t PeerProcesses::id_of(Rank rank) const {
  for (const Watched& peer : watched_) {
    if (peer.rank == rank) return peer.id;
  }
  return -1;
}

}  // namespace tessera
