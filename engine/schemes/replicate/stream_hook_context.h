// SPDX-License-Identifier: Apache-2.0
// A hook gets this from the reducer: one stream, all ranks, one cause.
#pragma once

#include "tessera/comm_hook.h"

namespace tessera {

class StreamHookContext final : public HookContext {
 public:
  StreamHookContext(Runtime& runtime, StreamId stream, CommunicatorId world, RankSet ranks,
                    const Cause& cause, float divisor)
      : runtime_(runtime),
        stream_(stream),
        world_(world),
        ranks_(std::move(ranks)),
        cause_(cause),
        divisor_(divisor) {}

  Result<BufferId> allocate(const std::string& name, Bytes bytes) override {
    return runtime_.allocate({.bytes = bytes,
                              .memory_class = MemoryClass::temporary,
                              .stream = stream_,
                              .where = ranks_,
                              .cause = cause_,
                              .name = name});
  }

  // An event of its own, for the last op on this stream may belong to an earlier bucket.
  Status release(BufferId buffer) override {
    TESSERA_ASSIGN(const EventId now, submit(Wait{stream_}));
    return runtime_.release(buffer, now, ranks_);
  }

  Result<EventId> submit(decltype(Op::what) what) override {
    return runtime_.submit({.stream = stream_,
                            .where = ranks_,
                            .after = {},
                            .cause = cause_,
                            .what = std::move(what)});
  }

  // Alone, a rank's gradient is the sum.
  Result<EventId> all_reduce(const View& view) override {
    if (ranks_.count() == 1) return submit(Mark{marks::gradients_sharded});
    return submit(AllReduce{world_, view, view, Reduction::sum});
  }

  float divisor() const override { return divisor_; }

 private:
  Runtime& runtime_;
  const StreamId stream_;
  const CommunicatorId world_;
  const RankSet ranks_;
  const Cause cause_;
  const float divisor_;
};

}  // namespace tessera
