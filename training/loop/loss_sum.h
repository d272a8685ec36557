// SPDX-License-Identifier: Apache-2.0
// Each rank's sum of the losses of its micro-batches, read by all ranks.
#pragma once

#include "tessera/engine.h"
#include "tessera/language_model.h"

namespace tessera {

class LossSum {
 public:
  /// Takes four bytes on the engine's compute stream. `language` is that of the engine's bodies.
  /// Fails: out_of_memory.
  static Result<LossSum> create(Runtime& runtime, const Engine& engine,
                                const LanguageModel& language);

  /// By an operation: a read of the host would not be ordered after the bodies that compute the
  /// losses. Stops the host. Fails: what the runtime fails with.
  Result<PerRank<float>> read();
  Status release();

 private:
  LossSum(Runtime& runtime, StreamId stream, const LanguageModel& language)
      : runtime_(&runtime), stream_(stream), language_(language) {}

  Runtime* runtime_;
  StreamId stream_;
  LanguageModel language_;
  BufferId sum_;
  EventId written_;
};

}  // namespace tessera
