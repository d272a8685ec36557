// SPDX-License-Identifier: Apache-2.0
#include "tests/backends/cuda/stand_in/stand_in.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <thread>

namespace tessera::test {
namespace {

StandIn* only = nullptr;

constexpr std::size_t queue_max = 1'024;  // entries of a stream, about as on a GPU
constexpr int blocked_max = 10'000;       // turns of the others, until nothing can have changed
constexpr int unknown_error = 999;
constexpr int unhandled_cuda_error = 1;  // of NCCL

bool is_of_nccl(Call call) { return call >= Call::get_unique_id; }

// What may be called while a stream is recorded.
bool may_be_recorded(Call call) {
  return call == Call::memcpy_async || call == Call::memcpy_2d_async ||
         call == Call::memset_async || call == Call::cast_blocks || call == Call::kernel;
}

}  // namespace

thread_local int StandIn::device = 0;
thread_local KernelLoads StandIn::before_loads;

// What one rank hears of the others.
class FakePeers final : public CudaPeers {
 public:
  FakePeers(StandIn& world, Rank rank)
      : world_(world), rank_(rank), letters_(world.letters_.join(rank)) {}

  Rank rank() const override { return rank_; }
  Rank ranks() const override { return world_.options().ranks; }
  Result<bool> share(std::span<std::byte> data) override {
    if (rank_ == 0) world_.shared_.emplace(data.begin(), data.end());
    if (!world_.shared_) return false;
    std::copy(world_.shared_->begin(), world_.shared_->end(), data.begin());
    return true;
  }
  void abort(const Status& why) override {
    if (world_.ended_.ok()) world_.ended_ = why;
    letters_->abort(why);
    told_ = true;
  }
  Status ended() override {
    if (world_.ended_.ok() || told_ || world_.options().deaf) return {};
    return Status(Code::communication_error, world_.ended_.message());
  }
  void idle() override { world_.turns_.yield(); }
  Transport* transport() override { return world_.options().only_nccl ? nullptr : letters_.get(); }

 private:
  StandIn& world_;
  const Rank rank_;
  const std::unique_ptr<Transport> letters_;
  bool told_ = false;
};

StandIn::StandIn(StandInOptions options)
    : options_(std::move(options)),
      turns_(options_.seed),
      random_(options_.seed + 1),
      memory_(options_.ranks, options_.device_bytes),
      streams_(options_.ranks, options_.seed + 2),
      nccl_(options_.ranks, options_.seed + 3),
      races_(static_cast<std::size_t>(options_.ranks)),
      uses_(static_cast<std::size_t>(options_.ranks)),
      marks_(static_cast<std::size_t>(options_.ranks)),
      kernels_(static_cast<std::size_t>(options_.ranks)),
      recording_(static_cast<std::size_t>(options_.ranks)),
      letters_(options_.ranks) {
  TESSERA_ASSERT(only == nullptr, "one world at a time");
  memory_.take(options_.ranks - 1, options_.taken_bytes);
  only = this;
}

StandIn::~StandIn() { only = nullptr; }

StandIn& StandIn::current() {
  TESSERA_ASSERT(only != nullptr, "a world to call into");
  return *only;
}

std::vector<Status> StandIn::run(const std::function<Status(std::unique_ptr<CudaPeers>)>& program) {
  std::vector<Status> statuses(static_cast<std::size_t>(options_.ranks));
  turns_.run(options_.ranks, [&](int rank) {
    statuses[static_cast<std::size_t>(rank)] = program(std::make_unique<FakePeers>(*this, rank));
  });
  while (streams_.step()) {
  }
  return statuses;
}

StandIn::Verdict StandIn::enter(Call call) {
  const int count = ++uses_[static_cast<std::size_t>(rank())][call];
  if (options_.seed != 0 && random_.chance(5)) turns_.yield();
  const int threads = std::exchange(device, rank());  // NCCL's threads have their own
  nccl_.work(rank());
  device = threads;
  if (recording() != nullptr && !may_be_recorded(call)) {
    report(fmt::format("call {} while a stream is recorded", static_cast<int>(call)));
    return {900, false};  // cudaErrorStreamCaptureUnsupported
  }
  if (const auto broken = broken_.find(rank()); broken != broken_.end()) {
    return {is_of_nccl(call) ? unhandled_cuda_error : broken->second, false};
  }
  if (!options_.fault || !is_struck(*options_.fault, call, count)) return {};
  const PlantedFault& fault = *options_.fault;
  if (fault.slow > 0) return dawdle(fault.slow), Verdict{};
  if (fault.late) return late_failure_ = fault.code, Verdict{};
  if (fault.stays) broken_[rank()] = fault.code;
  return fault.dropped ? Verdict{0, true} : Verdict{fault.code, false};
}

bool StandIn::is_struck(const PlantedFault& fault, Call call, int use) const {
  const bool here = fault.rank == rank() || fault.rank == PlantedFault::every_rank;
  return here && fault.call == call && (fault.use == use || fault.use == PlantedFault::every_use);
}

// Time passes, and the others go on.
void StandIn::dawdle(Time elapsed) {
  constexpr int parts = 50;
  for (int k = 0; k < parts; ++k) {
    streams_.pass(elapsed / parts);
    turns_.yield();
  }
}

int StandIn::uses(Call call, int of_rank) const {
  const auto& counts = uses_[static_cast<std::size_t>(of_rank)];
  const auto found = counts.find(call);
  return found == counts.end() ? 0 : found->second;
}

// It also tells of collectives that nobody has asked about.
std::int64_t StandIn::profile() {
  auto& kernels = kernels_[static_cast<std::size_t>(rank())];
  const Time when = streams_.now() + options_.profiler_late;
  const std::int64_t nobodys = ++profiled_;
  const std::int64_t number = ++profiled_;
  if (rank() == options_.profiler_silent) return number;
  kernels.push_back({when, {nobodys, 1}});
  kernels.push_back({when, {number, kernel_time(rank())}});
  return number;
}

bool StandIn::next_kernel(NcclKernel& kernel) {
  auto& kernels = kernels_[static_cast<std::size_t>(rank())];
  if (kernels.empty() || streams_.now() < kernels.front().when) return false;
  kernel = kernels.front().kernel;
  kernels.pop_front();
  return true;
}

void StandIn::report(std::string what) {
  reports_.push_back(fmt::format("rank {}: {}", rank(), what));
}

bool StandIn::has_room(FakeStream& stream) {
  for (int turn = 0; stream.queue.size() >= queue_max; ++turn) {
    if (streams_.step()) continue;
    if (turn > blocked_max) return false;
    turns_.yield();
  }
  return true;
}

int StandIn::admit(FakeStream* stream) {
  if (!streams_.knows(stream)) return report("work for a stream that does not exist"), 400;
  if (stream->device != device) {
    report("work for a stream of another device than the thread's");
    return 400;  // cudaErrorInvalidResourceHandle
  }
  if (has_room(*stream)) return 0;
  report(fmt::format("stream {} is full and its device stands still: the host is blocked for ever",
                     stream->index));
  return unknown_error;
}

bool StandIn::load(const std::string& name) {
  if (!options_.loads_lazily || loaded_.contains({device, name})) return true;
  if (before_loads() != 0) return false;
  loaded_.insert({device, name});
  return stand_still("loading " + name) == 0;
}

int StandIn::stand_still(const std::string& what) {
  for (int turn = 0; !streams_.idle(device); ++turn) {
    if (streams_.step()) continue;
    if (turn > blocked_max) {
      report(what + " waits for a device that stands still: blocked for ever");
      return unknown_error;
    }
    turns_.yield();
    if (options_.loads_lazily) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return 0;
}

int StandIn::check(FakeStream* stream, const std::vector<MemoryAccess>& accesses,
                   const std::string& name) {
  if (const int code = admit(stream); code != 0) return code;
  for (const MemoryAccess& access : accesses) {
    if (memory_.accessible(access.at, access.bytes, stream->device)) continue;
    report(name + " touches memory that is not there");
    return broken_[stream->device] = 700;  // cudaErrorIllegalAddress, from now on of every call
  }
  const Clock clock = streams_.advance(*stream);
  for (const MemoryAccess& access : accesses) {
    const std::string race = races_[static_cast<std::size_t>(stream->device)].check(
        access, stream->index, clock, fmt::format("{} of stream {}", name, stream->index));
    if (!race.empty()) report("race: " + race);
  }
  return 0;
}

int StandIn::enqueue(FakeStream* stream, const std::vector<MemoryAccess>& accesses,
                     const std::string& name, std::function<void()> run) {
  if (stream == recording() && stream != nullptr) {
    stream->recording->nodes.push_back({accesses, name, std::move(run)});
    return 0;
  }
  if (!load(name)) return unknown_error;
  const int code = check(stream, accesses, name);
  if (code != 0) return code;
  stream->queue.push_back({std::move(run), nullptr, 0, false, nullptr});
  progress(random_.chance(25) ? 1 : 0);
  return 0;
}

int StandIn::queue_meeting(FakeStream* stream, const std::vector<MemoryAccess>& accesses,
                           const std::string& name, std::shared_ptr<Meeting> meeting) {
  const int code = check(stream, accesses, name);
  if (code != 0) return code;
  auto& [last, count] = last_meeting_[static_cast<std::size_t>(stream->device)];
  const bool ordered = last == nullptr || stream->clock[last->index] >= count;
  if (options_.nccl_version < nccl_in_launch_order && !ordered) {
    report("NCCL before 2.26 may start " + name + " before the collective that was called first");
  }
  last = stream;
  count = stream->clock[stream->index];
  stream->queue.push_back({{}, nullptr, 0, false, std::move(meeting)});
  progress(random_.chance(25) ? 1 : 0);
  return 0;
}

void StandIn::forget(const void* at, std::size_t bytes, int of_device) {
  const std::string used =
      races_[static_cast<std::size_t>(of_device)].forget(at, bytes, streams_.seen(of_device));
  if (!used.empty()) report("memory is " + used);
}

void StandIn::progress(int steps) {
  while ((options_.seed == 0 || steps-- > 0) && streams_.step()) {
  }
}

std::string StandIn::leaks() const {
  const std::size_t memory = memory_.live();
  const std::size_t streams = streams_.live();
  const std::size_t comms = nccl_.live();
  const std::size_t files = cufile_.live();
  if (memory + streams + comms + files == 0) return {};
  return fmt::format("{} pieces of memory, {} streams and events, {} communicators, {} of cuFile",
                     memory, streams, comms, files);
}

}  // namespace tessera::test
