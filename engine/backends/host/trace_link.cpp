// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/trace_link.h"

#include <limits>

namespace tessera {
namespace {

constexpr CommunicatorId tracing{std::numeric_limits<std::int32_t>::max() - 1};

class TransportLink final : public TraceLink {
 public:
  explicit TransportLink(Transport& transport) : transport_(transport) {}

  Rank rank() const override { return transport_.rank(); }
  Rank ranks() const override { return transport_.ranks(); }
  bool at_any_time() const override { return true; }
  Result<Request> broadcast(std::span<std::byte> data) override {
    return transport_.broadcast(tracing, 0, data);
  }
  Result<Request> gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    return transport_.gather(tracing, 0, own, all);
  }
  Result<bool> test(Request request) override { return transport_.test(request); }
  void abort(const Status& why) override { transport_.abort(why); }

 private:
  Transport& transport_;
};

}  // namespace

Result<std::unique_ptr<TraceLink>> trace_link_of(Transport& transport) {
  TESSERA_ASSIGN(const auto all, RankGroups::strided(transport.ranks(), transport.ranks()));
  TESSERA_TRY(transport.add_communicator(tracing, all));
  return std::unique_ptr<TraceLink>(std::make_unique<TransportLink>(transport));
}

}  // namespace tessera
