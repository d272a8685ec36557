// SPDX-License-Identifier: Apache-2.0
// Hooks that average: as the bucket is, or in half as many bytes.
#include "engine/numbers/arithmetic.h"
#include "engine/schemes/replicate/hooks/mean.h"
#include "tessera/comm_hook.h"

namespace tessera {

Result<EventId> reduce_to_mean(const View& values, HookContext& context) {
  TESSERA_TRY(context.submit(divide(values, context.divisor())).status());
  return context.all_reduce(values);
}

namespace {

class AllReduceHook final : public CommHook {
 public:
  std::string_view name() const override { return "allreduce"; }
  Result<EventId> reduce(const GradBucket& bucket, HookContext& context) override {
    return reduce_to_mean(bucket.values, context);
  }
};

class CompressHook final : public CommHook {
 public:
  CompressHook(std::string_view name, DType half) : name_(name), half_(half) {}
  std::string_view name() const override { return name_; }

  Result<EventId> reduce(const GradBucket& bucket, HookContext& context) override {
    const Numel numel = bucket.values.numel;
    TESSERA_ASSIGN(const BufferId buffer,
                   context.allocate("compressed_bucket", bytes_of(numel, half_)));
    const View compressed = View::whole(buffer, half_, numel);
    TESSERA_TRY(context.submit(cast(bucket.values, compressed)).status());
    TESSERA_TRY(reduce_to_mean(compressed, context).status());
    TESSERA_ASSIGN(const EventId restored, context.submit(cast(compressed, bucket.values)));
    TESSERA_TRY(context.release(buffer));
    return restored;
  }

 private:
  static Copy cast(const View& from, const View& to) {
    return {.pieces = {{.from = from, .to = to}}};
  }

  const std::string_view name_;
  const DType half_;
};

}  // namespace

std::shared_ptr<CommHook> allreduce_hook() { return std::make_shared<AllReduceHook>(); }
std::shared_ptr<CommHook> fp16_compress_hook() {
  return std::make_shared<CompressHook>("fp16", DType::float16);
}
std::shared_ptr<CommHook> bf16_compress_hook() {
  return std::make_shared<CompressHook>("bf16", DType::bfloat16);
}

}  // namespace tessera
