// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/cuda/module/nccl_profiler.h"

#include <algorithm>
#include <cstdio>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

namespace tessera {
namespace {

constexpr std::size_t open_max = 4096;  // collectives without an end, kernels that nobody asks for

struct OpenCollective {
  int channels = 0;
  int ended = 0;
  std::uint64_t start = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t end = 0;
};

struct OpenChannel {
  std::int64_t collective = 0;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

// NCCL calls from its own threads, too.
std::mutex mutex;
std::int64_t numbers = 0;  // of collectives and channels
std::optional<NcclCollective> last;
std::map<std::int64_t, OpenCollective> collectives;
std::map<std::int64_t, OpenChannel> channels;
std::deque<NcclKernel> ended;

const char* word(const char* text) { return text == nullptr ? "?" : text; }
void* handle_of(std::int64_t number) { return reinterpret_cast<void*>(number); }
std::int64_t number_of(const void* handle) { return reinterpret_cast<std::int64_t>(handle); }

template <class Values>
void bound(Values& values) {
  if (values.size() > open_max) values.erase(values.begin());
}

int init(void** context, std::uint64_t, int* events, const char*, int, int, int,
         void (*)(int, unsigned long, const char*, int, const char*, ...)) {
  *context = nullptr;
  *events = static_cast<int>(profile_collectives | profile_kernels);
  return 0;
}

std::int64_t start_collective(const ProfiledCollective& collective) {
  last.emplace().number = ++numbers;
  std::snprintf(last->how.data(), last->how.size(), "%s %s, %d channels",
                word(collective.algorithm), word(collective.protocol), int{collective.channels});
  collectives[numbers].channels = collective.channels;
  bound(collectives);
  return numbers;
}

std::int64_t start_channel(std::int64_t parent, const ProfiledKernel& kernel) {
  if (!collectives.contains(parent)) return 0;
  channels[++numbers] = {parent, kernel.start, kernel.start};
  bound(channels);
  return numbers;
}

// NCCL reports the progress of a collective only if the profiler gave it an event.
int start_event(void*, void** event, ProfilerEvent* description) {
  const std::lock_guard lock(mutex);
  std::int64_t number = 0;
  if (description->type == profile_collectives) {
    number = start_collective(description->collective);
  } else if (description->type == profile_kernels) {
    number = start_channel(number_of(description->parent), description->kernel);
  }
  *event = handle_of(number);
  return 0;
}

int record_event_state(void* event, int state, ProfilerState* arguments) {
  if (state != kernel_ended || arguments == nullptr) return 0;
  const std::lock_guard lock(mutex);
  const auto channel = channels.find(number_of(event));
  if (channel != channels.end()) channel->second.end = arguments->end;
  return 0;
}

// A collective's own event ends when it has been enqueued, long before its kernels do.
int stop_event(void* event) {
  const std::lock_guard lock(mutex);
  const auto found = channels.find(number_of(event));
  if (found == channels.end()) return 0;
  const OpenChannel channel = found->second;
  channels.erase(found);
  const auto of = collectives.find(channel.collective);
  if (of == collectives.end()) return 0;
  OpenCollective& collective = of->second;
  collective.start = std::min(collective.start, channel.start);
  collective.end = std::max(collective.end, channel.end);
  if (++collective.ended < collective.channels) return 0;
  ended.push_back({channel.collective, static_cast<Time>(collective.end - collective.start)});
  bound(ended);
  collectives.erase(of);
  return 0;
}

int finalize(void*) { return 0; }

}  // namespace

bool last_collective(NcclCollective* collective) {
  const std::lock_guard lock(mutex);
  if (!last) return false;
  *collective = *last;
  last.reset();
  return true;
}

bool next_kernel(NcclKernel* kernel) {
  const std::lock_guard lock(mutex);
  if (ended.empty()) return false;
  *kernel = ended.front();
  ended.pop_front();
  return true;
}

}  // namespace tessera

extern "C" const tessera::ProfilerV5 ncclProfiler_v5 = {"tessera",
                                                        tessera::init,
                                                        tessera::start_event,
                                                        tessera::stop_event,
                                                        tessera::record_event_state,
                                                        tessera::finalize};
