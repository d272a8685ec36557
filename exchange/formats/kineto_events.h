// SPDX-License-Identifier: Apache-2.0
// The events of one profile, as far as an import needs them.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "exchange/import/imported_run.h"
#include "exchange/parse/source_file.h"

namespace tessera::exchange {

enum class KinetoCategory : std::uint8_t {
  cpu_op,
  annotation,  // record_function and its like, on the host
  kernel,
  copy,  // gpu_memcpy
  set,   // gpu_memset
  gpu_annotation,
  synchronize,  // a call of the runtime that waits for the device
};

struct KinetoEvent {
  Time begin = 0, end = 0;
  std::int64_t correlation = -1;  // of a kernel and the call that launched it
  std::int64_t external = -1;     // of what a host operation launches, and itself
  TextId name = 0;
  std::int32_t thread = 0;    // index into KinetoFile::threads
  std::int32_t message = -1;  // index into KinetoFile::messages
  KinetoCategory category = KinetoCategory::cpu_op;
};

/// What record_param_comms tells of a collective.
struct KinetoMessage {
  std::string collective;  // "_allgather_base"
  std::string dtype;       // "BFloat16"
  std::string group, description;
  std::vector<Rank> ranks;
  std::int64_t in = -1, out = -1;  // elements; -1: unknown
  std::int64_t group_size = 0;
  std::int64_t sequence = -1;
};

/// A thread of the host, or a stream of a device.
struct KinetoThread {
  std::string process, thread;  // as the file names them
};

/// When a call of the runtime launched something.
struct KinetoLaunch {
  std::int64_t correlation = 0;
  Time time = 0;
  std::int32_t thread = 0;
};

struct KinetoMemory {
  Time time = 0;
  Bytes delta{}, allocated{}, reserved{};
  std::uint64_t address = 0;
  std::int32_t thread = 0;
  std::int32_t device = -1;  // -1: the host's
};

struct KinetoGroup {
  std::string name, description;
  std::vector<Rank> ranks;
  std::int32_t size = 0;
};

struct KinetoFile {
  Rank rank = -1;
  std::int32_t world = 0;
  std::string backend, host, device;
  Bytes device_memory{};
  std::vector<KinetoGroup> groups;
  Time base = 0;       // added to all times already
  std::string schema;  // version of the file's format; "": not said
  bool based = false;  // the file has a base: times are since 1970
  bool cut_off = false;
  std::vector<KinetoEvent> events;
  std::vector<KinetoLaunch> launches;
  std::vector<KinetoMemory> memory;
  std::vector<KinetoMessage> messages;
  std::vector<KinetoThread> threads;
  std::set<Rank> named_ranks;  // of processes that are called so: "rank 3"
};

/// Reads all; what is left out is counted in `run.lost`. Fails: as JsonStream, but a file that ends
/// in the middle gives what is whole (`cut_off`); out_of_memory (more than `events_max`).
Result<KinetoFile> read_kineto_file(SourceFile& source, std::int64_t events_max, ImportedRun& run);

}  // namespace tessera::exchange
