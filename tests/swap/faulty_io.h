// SPDX-License-Identifier: Apache-2.0
// A drive that goes wrong when a test says so.
#pragma once

#include <functional>
#include <map>

#include "engine/swap/block_io.h"

namespace tessera::test {

/// A planted fault: it may change a request before it is carried out, and its result afterwards.
struct Fault {
  std::function<void(BlockRequest&)> before;
  std::function<std::int64_t(const BlockRequest&, std::int64_t)> after;
};

class FaultyIo final : public BlockIo {
 public:
  explicit FaultyIo(const Fault& fault) : fault_(fault), io_(make_thread_io(2)) {}

  int start(const BlockRequest& asked) override {
    BlockRequest request = asked;
    if (fault_.before) fault_.before(request);
    requests_[request.tag] = request;
    return io_->start(request);
  }
  BlockCompletion wait() override { return judged(io_->wait()); }
  std::optional<BlockCompletion> poll() override {
    const auto completion = io_->poll();
    if (!completion) return {};
    return judged(*completion);
  }
  const char* name() const override { return "faulty"; }

 private:
  BlockCompletion judged(BlockCompletion completion) {
    const BlockRequest request = requests_.extract(completion.tag).mapped();
    if (fault_.after) completion.result = fault_.after(request, completion.result);
    return completion;
  }

  const Fault& fault_;
  std::unique_ptr<BlockIo> io_;
  std::map<std::uint64_t, BlockRequest> requests_;
};

}  // namespace tessera::test
