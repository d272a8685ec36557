// SPDX-License-Identifier: Apache-2.0
#include "training/loop/loss_sum.h"

#include "engine/numbers/number.h"

namespace tessera {

Result<LossSum> LossSum::create(Runtime& runtime, const Engine& engine,
                                const LanguageModel& language) {
  LossSum made(runtime, engine.compute_stream(), language);
  TESSERA_ASSIGN(made.sum_, runtime.allocate({.bytes = size_of(DType::float32),
                                              .memory_class = MemoryClass::buffers,
                                              .stream = made.stream_,
                                              .where = runtime.world(),
                                              .cause = {},
                                              .name = "trainer.loss",
                                              .directory = {}}));
  return made;
}

Result<PerRank<float>> LossSum::read() {
  Compute sum;
  sum.writes = {View::whole(sum_, DType::float32, Numel{1})};
  sum.on_numbers = true;  // it starts after a GPU has sent its losses to the host
  sum.body = [language = language_](const BodyContext& context) {
    float total = 0;
    for (float of_micro_batch : language.losses(context.rank())) total += of_micro_batch;
    store_number(context.write(0), DType::float32, 0, total);
  };
  Op op{.stream = stream_, .where = runtime_->world(), .after = {}, .cause = {}, .what = {}};
  op.what = sum;
  TESSERA_ASSIGN(written_, runtime_->submit(op));
  return runtime_->read(sum.writes[0]);
}

Status LossSum::release() { return runtime_->release(sum_, written_, runtime_->world()); }

}  // namespace tessera
