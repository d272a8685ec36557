// SPDX-License-Identifier: Apache-2.0
// What the carrier tells its trace, and when times come in.
#include <array>

#include "engine/cuda/cuda_carrier.h"

namespace tessera {

Status CudaCarrier::start_trace() {
  Transport* const transport = peers_->transport();
  if (transport == nullptr && options_.sink == nullptr) return {};
  if (transport == nullptr) {
    return Status(Code::not_supported,
                  "ranks that only NCCL connects cannot send each other their times: start them "
                  "with mpirun, or without a trace");
  }
  // Whoever gives up tells the others before its memory goes, from which they may still read.
  const auto complete = [&](Transport::Request request) {
    return noted(until([&] { return transport->test(request); }));
  };
  TESSERA_ASSIGN(trace_, HostTrace::start(*transport, rank_ == 0 ? options_.sink : nullptr,
                                          options_.clock, complete));
  if (!trace_) return {};
  times_ = std::make_unique<OpTimes>(module_.cuda, *trace_, options_.clock);
  return times_->open([this](const std::function<Result<bool>()>& done) { return until(done); });
}

void CudaCarrier::enter_step(std::int32_t step) {
  if (trace_) trace_->enter_step(step, [this](std::int32_t of) { return take_peaks(of); });
}

// After it was handed over: only then NCCL has decided how it carries out a collective.
Status CudaCarrier::submit_to_trace(const Op& op, EventId event, Lane& lane) {
  std::array<char, 64> algorithm{};
  int length = 0;
  if (communicator_of(op).valid()) {
    length = module_.nccl.last_collective(algorithm.data(), static_cast<int>(algorithm.size()));
  }
  const auto place = trace_->submit(op, event, first_live_event(), /*here=*/true,
                                    {algorithm.data(), static_cast<std::size_t>(length)});
  return place < 0 ? Status{} : times_->end(lane.stream(), place);
}

Status CudaCarrier::advance_trace() {
  if (!times_) return {};
  TESSERA_TRY(times_->collect());
  return trace_->advance();
}

Status CudaCarrier::end_trace() {
  if (!trace_) return {};
  trace_->close_step([this](std::int32_t of) { return take_peaks(of); });
  const auto idle = [this]() -> Result<bool> {
    TESSERA_TRY(advance_trace());
    return trace_->idle();
  };
  TESSERA_TRY(until(idle));
  trace_->finish();
  return {};
}

}  // namespace tessera
