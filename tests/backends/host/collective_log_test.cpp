// SPDX-License-Identifier: Apache-2.0
#include "engine/backends/host/collective_log.h"

#include <catch2/catch.hpp>

#include "tests/random.h"

namespace tessera {
namespace {

Op gather_of(const std::string& unit, std::int64_t numel) {
  const View full = View::whole(BufferId{1}, DType::bfloat16, Numel{numel});
  return {.stream = StreamId{0},
          .where = RankSet::all(2),
          .after = {},
          .cause = {.unit = unit},
          .what = AllGather{CommunicatorId{3},
                            View::shard(BufferId{1}, DType::bfloat16, Numel{2}, 2), full}};
}

TEST_CASE("equal calls have equal hashes, and any difference shows", "[host][log]") {
  const std::string unit = "model.layers.3";
  CollectiveLog log;
  log.add(gather_of(unit, 4));
  const auto with = [](const Op& op) {
    CollectiveLog other;
    other.add(op);
    return other.hash();
  };
  CHECK(log.hash() == with(gather_of(unit, 4)));
  CHECK(log.hash() != with(gather_of("model.layers.4", 4)));
  CHECK(log.hash() != with(gather_of(unit, 5)));
  Op broadcast = gather_of(unit, 4);
  const View data = View::whole(BufferId{1}, DType::bfloat16, Numel{4});
  broadcast.what = Broadcast{CommunicatorId{3}, data, 0};
  CHECK(log.hash() != with(broadcast));
  const std::uint64_t root_0 = with(broadcast);
  broadcast.what = Broadcast{CommunicatorId{3}, data, 1};
  CHECK(root_0 != with(broadcast));
  broadcast.what = Broadcast{CommunicatorId{2}, data, 0};
  CHECK(root_0 != with(broadcast));
  View floats = data;
  floats.dtype = DType::float32;
  broadcast.what = Broadcast{CommunicatorId{3}, floats, 0};
  CHECK(root_0 != with(broadcast));
}

TEST_CASE("the hash of a call stands for all calls before it", "[host][log]") {
  CollectiveLog a, b;
  a.add("read", "x");
  b.add("read", "y");
  a.add("read", "z");
  b.add("read", "z");
  CHECK(a.find(2)->hash != b.find(2)->hash);
}

TEST_CASE("a call is described by operation, size, unit and communicator", "[host][log]") {
  CollectiveLog log;
  const std::string unit = "model.layers.3";
  log.add(gather_of(unit, 4));
  log.add("communicator", "shards");
  CHECK(describe(*log.find(1)) ==
        "all_gather of 4 bfloat16 of unit model.layers.3 on communicator 3");
  CHECK(describe(*log.find(2)) == "communicator of shards");
  const std::string deep = std::string(200, 'a') + ".mlp";
  log.add(gather_of(deep, 4));
  CHECK(describe(*log.find(3)).find("aaa.mlp on communicator 3") != std::string::npos);
  log.forget_until(2);
  CHECK(log.find(2) == nullptr);
  CHECK(log.find(3) != nullptr);
  CHECK(log.count() == 3);
}

TEST_CASE("reports survive the way, and damaged ones are refused", "[host][log]") {
  CollectiveLog log;
  log.add("read", "");
  const LogReport report{.first = 7, .calls = {*log.find(1)}, .trouble = {Code::timed_out, "why"}};
  const std::string bytes = report.to_bytes();
  const auto same = LogReport::from_bytes(bytes);
  REQUIRE(same);
  CHECK(same->first == 7);
  CHECK(same->calls.at(0).hash == log.hash());
  CHECK(same->trouble.message() == "why");
  test::Random random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = bytes.substr(0, random.next() % (bytes.size() + 1));
    if (!damaged.empty()) {
      damaged[random.next() % damaged.size()] = static_cast<char>(random.next());
    }
    const auto read = LogReport::from_bytes(damaged);  // no crash
    if (read) {
      for (const LoggedCall& call : read->calls) CHECK(describe(call).size() < 400);
    }
  }
}

}  // namespace
}  // namespace tessera
