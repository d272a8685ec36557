// SPDX-License-Identifier: Apache-2.0
// The calls of the backend to its trace, and the collection of times.
#include "engine/backends/cuda/cuda_backend.h"
#include "engine/backends/cuda/nccl_link.h"

namespace tessera {
namespace {

constexpr std::size_t profiled_max = 4096;    // collectives whose kernel times are awaited
constexpr Time last_kernels_ns = 50'000'000;  // time that NCCL gets to report the last kernels

}  // namespace

Status CudaBackend::start_trace(int device) {
  if (Transport* const transport = peers_->transport(); transport != nullptr) {
    TESSERA_ASSIGN(trace_link_, trace_link_of(*transport));
  } else {
    auto link = std::make_unique<NcclLink>(module_.cuda, module_.nccl, *peers_, communicators_,
                                           events_, control_.stream());
    TESSERA_TRY(link->open(device));
    trace_link_ = std::move(link);
  }
  // A rank that gives up notifies the others before it frees memory from which they may still read.
  const auto complete = [&](TraceLink::Request request) {
    return noted(until([&] { return trace_link_->test(request); }));
  };
  const bool has_sink = rank_ == 0 || options_.own_trace;
  const HostTrace::Wanted wanted{has_sink ? options_.sink : nullptr, options_.profile_nccl,
                                 options_.own_trace};
  TESSERA_ASSIGN(trace_, HostTrace::start(*trace_link_, wanted, options_.clock, complete));
  if (!trace_) return trace_link_.reset(), Status{};
  times_ = std::make_unique<OpTimes>(module_.cuda, *trace_, options_.clock);
  return times_->open([this](const std::function<Result<bool>()>& done) { return until(done); });
}

Status CudaBackend::enter_step(std::int32_t step) {
  if (!trace_) return {};
  trace_->enter_step(step, [this](std::int32_t of) { return take_peaks(of); });
  return trace_->full() ? write_trace() : Status{};
}

// Called after the operation was enqueued: only then NCCL has decided on an algorithm.
Status CudaBackend::submit_to_trace(const Op& op, EventId event, Lane& lane) {
  NcclCollective profiled;
  const bool one_call = communicator_of(op).valid() && kind_of(op) != OpKind::all_to_all;
  if (one_call && module_.nccl.last_collective(&profiled)) {
    profiled_[profiled.number] = event;
    if (profiled_.size() > profiled_max) profiled_.erase(profiled_.begin());
  }
  const auto place =
      trace_->submit(op, event, first_live_event(), /*here=*/true, profiled.how.data());
  return place < 0 ? Status{} : times_->end(lane.stream(), place);
}

Status CudaBackend::advance_trace() {
  if (!times_) return {};
  TESSERA_TRY(times_->collect());
  take_kernel_times();
  return trace_->advance();
}

// Collectives of `read` and of the trace itself are no operations: their times are dropped.
void CudaBackend::take_kernel_times() {
  NcclKernel kernel;
  while (module_.nccl.next_kernel(&kernel)) {
    const auto found = profiled_.find(kernel.number);
    if (found == profiled_.end()) continue;
    trace_->kernel(found->second, kernel.time);
    profiled_.erase(found);
  }
}

// All ranks come here behind the same operation, and none goes on before all closed steps are
// written.
Status CudaBackend::write_trace() {
  return until([this]() -> Result<bool> {
    TESSERA_TRY(times_->collect());
    take_kernel_times();
    TESSERA_TRY(trace_->advance(/*together=*/true));
    return trace_->idle();
  });
}

// All work is done, but NCCL's threads report kernel times late, or never: they get a moment.
Status CudaBackend::await_kernel_times() {
  const Time end = options_.clock() + std::min(last_kernels_ns, options_.deadline / 2);
  return until([&]() -> Result<bool> {
    take_kernel_times();
    return profiled_.empty() || options_.clock() >= end;
  });
}

Status CudaBackend::end_trace() {
  if (!trace_) return {};
  TESSERA_TRY(await_kernel_times());
  trace_->close_last_step([this](std::int32_t of) { return take_peaks(of); });
  TESSERA_TRY(write_trace());
  trace_->finish();
  return {};
}

}  // namespace tessera
