// SPDX-License-Identifier: Apache-2.0
// A program's own look at gradients, on their way to their mean.
#include "c/handles.h"
#include "tessera/comm_hook.h"
#include "tessera/number_arrays.h"

namespace tessera::c {
namespace {

class ProgramHook final : public CommHook {
 public:
  ProgramHook(tessera_bucket_fn before, tessera_bucket_fn after, void* user)
      : before_(before), after_(after), user_(user) {}

  std::string_view name() const override { return "program"; }

  Result<EventId> reduce(const GradBucket& bucket, HookContext& context) override {
    if (before_ != nullptr) TESSERA_TRY(context.submit(call(bucket, 1, before_)).status());
    TESSERA_ASSIGN(const EventId added, context.all_reduce(bucket.values));
    static_cast<void>(added);
    return context.submit(call(bucket, context.divisor(), after_));
  }

 private:
  // Divides what was added up, and shows it to the program.
  Compute call(const GradBucket& bucket, float divisor, tessera_bucket_fn function) const {
    Compute work{.writes = {bucket.values}};
    work.on_numbers = true;
    work.body = [what = bucket.values, number = bucket.index, last = bucket.is_last, divisor,
                 function, user = user_](const BodyContext& context) {
      const std::span<std::byte> values = context.write(0);
      const auto count = static_cast<std::int64_t>(values.size()) / size_of(what.dtype).value;
      if (divisor != 1) divide({values, what.dtype}, count, divisor);
      const tessera_bucket shown{.struct_size = sizeof shown,
                                 .rank = context.rank(),
                                 .number = static_cast<std::int32_t>(number),
                                 .is_last = last ? 1 : 0,
                                 .dtype = static_cast<std::int32_t>(what.dtype),
                                 .numel = count,
                                 .values = values.data()};
      if (function != nullptr) function(user, &shown);
    };
    return work;
  }

  static void divide(const Elements& values, std::int64_t count, float divisor) {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    load_numbers(values, numbers);
    for (float& number : numbers) number /= divisor;
    store_numbers(numbers, values);
  }

  const tessera_bucket_fn before_, after_;
  void* const user_;
};

Status set_hook(tessera_engine& engine, tessera_bucket_fn before, tessera_bucket_fn after,
                void* user) {
  if (before == nullptr && after == nullptr) {
    return Status(Code::invalid_argument, "a hook: `before`, `after` or both");
  }
  return register_comm_hook(*engine.engine, std::make_shared<ProgramHook>(before, after, user));
}

}  // namespace
}  // namespace tessera::c

int tessera_engine_set_hook(tessera_engine* engine, tessera_bucket_fn before,
                            tessera_bucket_fn after, void* user) {
  return tessera::c::guarded([&] { return tessera::c::set_hook(*engine, before, after, user); },
                             engine);
}
