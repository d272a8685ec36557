// SPDX-License-Identifier: Apache-2.0
#include "tessera/analysis/step_pairs.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <string>

#include "tessera/analysis/compare.h"

namespace tessera::analysis {
namespace {

Trace bundled(const std::string& name) {
  auto trace = Trace::open(std::string(TESSERA_SOURCE_DIR) + "/traces/" + name);
  INFO(trace.status().message());
  REQUIRE(trace.ok());
  return std::move(trace).value();
}

StepPairs pairs_of(const Trace& a, const Trace& b) {
  auto pairs = pair_step(a, b, 1, 5);
  INFO(pairs.status().message());
  REQUIRE(pairs.ok());
  return std::move(pairs).value();
}

TEST_CASE("a step is the same as itself", "[analysis][step_pairs]") {
  const Trace trace = bundled("gpt2-8-h100.tessera");
  const StepPairs pairs = pairs_of(trace, trace);
  CHECK(pairs.time_a == pairs.time_b);
  CHECK(pairs.only_a + pairs.only_b == 0);
  REQUIRE(pairs.ops.size() > 100);
  for (const ComparedOp& op : pairs.ops) {
    CHECK(op.a.op == op.b.op);
    CHECK(op.a.begin == op.b.begin);
    CHECK(op.a.end == op.b.end);
  }
  for (const ComparedKind& kind : pairs.kinds) {
    CHECK(kind.a == kind.b);
    CHECK(kind.median == 0);
    CHECK(kind.p95 == 0);
  }
}

TEST_CASE("what one run does faster is told by kind, and nothing gets lost",
          "[analysis][step_pairs]") {
  const Trace slow = bundled("gpt2-8-h100.tessera"), quick = bundled("gpt2-8-h100-fused.tessera");
  const StepPairs pairs = pairs_of(slow, quick), back = pairs_of(quick, slow);
  REQUIRE_FALSE(pairs.kinds.empty());
  CHECK(pairs.kinds.front().what == "backward compute");
  CHECK(pairs.kinds.front().median < 0);
  CHECK(pairs.only_a == back.only_b);
  CHECK(pairs.only_b == back.only_a);
  CHECK(pairs.ops.size() == back.ops.size());
  // Every kind's difference is there again, with the other sign.
  Time sum = 0, of_back = 0;
  for (const ComparedKind& kind : pairs.kinds) sum += kind.b - kind.a;
  for (const ComparedKind& kind : back.kinds) of_back += kind.b - kind.a;
  CHECK(sum == -of_back);
  for (std::size_t i = 1; i < pairs.ops.size(); ++i) {
    const auto begin = [](const ComparedOp& op) { return op.a.there() ? op.a.begin : op.b.begin; };
    CHECK(begin(pairs.ops[i - 1]) <= begin(pairs.ops[i]));
  }
}

TEST_CASE("a step or a rank that a run does not have is named", "[analysis][step_pairs]") {
  const Trace trace = bundled("gpt2-8-h100.tessera");
  CHECK(pair_step(trace, trace, 2, 5).status().message() == "A has no complete step 2");
  CHECK(pair_step(trace, trace, 0, 8).status().message() == "A has not recorded rank 8");
}

TEST_CASE("a comparison that nobody waits for any more ends, and says so", "[analysis][compare]") {
  const Trace trace = bundled("gpt2-8-h100.tessera");
  const std::atomic<bool> stop = true;
  CHECK(compare(trace, trace, &stop).status().code() == Code::cancelled);
  CHECK(compare(trace, trace).ok());
}

}  // namespace
}  // namespace tessera::analysis
