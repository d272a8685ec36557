// SPDX-License-Identifier: Apache-2.0
// A hook of one's own around another: remembers every bucket before and after it.
#pragma once

#include <map>
#include <vector>

#include "engine/numbers/number.h"
#include "tessera/comm_hook.h"

namespace tessera::test {

class WatchedHook final : public CommHook {
 public:
  using Values = std::map<Rank, std::vector<float>>;
  struct Call {
    GradBucket bucket;
    float divisor = 0;
    Values before, after;  // where the runtime keeps numbers
  };

  explicit WatchedHook(std::shared_ptr<CommHook> inner) : inner_(std::move(inner)) {}
  std::string_view name() const override { return "watched"; }
  Status attach() override { return inner_->attach(); }
  void detach() override { inner_->detach(); }

  Result<EventId> reduce(const GradBucket& bucket, HookContext& context) override {
    auto call = std::make_shared<Call>(Call{bucket, context.divisor(), {}, {}});
    calls.push_back(call);
    TESSERA_TRY(look(bucket, context, call->before).status());
    TESSERA_TRY(inner_->reduce(bucket, context).status());
    return look(bucket, context, call->after);
  }

  std::vector<std::shared_ptr<const Call>> calls;

 private:
  // `call` outlives this function: bodies run when a runtime likes.
  static Result<EventId> look(const GradBucket& bucket, HookContext& context, Values& into) {
    Compute work;
    work.reads = {bucket.values};
    work.body = [&into, view = bucket.values](const BodyContext& body) {
      auto& values = into[body.rank()];
      for (std::size_t i = 0; i < static_cast<std::size_t>(view.numel.value); ++i) {
        values.push_back(load_number(body.read(0), view.dtype, i));
      }
    };
    return context.submit(std::move(work));
  }

  std::shared_ptr<CommHook> inner_;
};

}  // namespace tessera::test
