// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "tessera/analysis/collectives.h"
#include "tessera/analysis/compare.h"
#include "tessera/analysis/run.h"
#include "tests/exchange/imports.h"
#include "tests/exchange/made_profile.h"

namespace tessera {
namespace {

using test::Imports;
using test::MadeProfile;

std::vector<std::string> made_files(const Imports& imports, MadeProfile plan,
                                    const std::vector<std::int64_t>& skews) {
  std::vector<std::string> files;
  plan.world = static_cast<int>(skews.size());
  for (int rank = 0; rank < plan.world; ++rank) {
    plan.rank = rank;
    plan.skew = skews[static_cast<std::size_t>(rank)];
    files.push_back(imports.file(fmt::format("rank{}.json", rank), test::made_profile(plan)));
  }
  return files;
}

/// "all_gather layers.0 backward backward_prefetch" of one step, sorted.
std::vector<std::string> collectives_of_step(const analysis::Trace& trace, std::int32_t step) {
  std::vector<std::string> out;
  for (const auto& op : trace.ops()) {
    if (op.step != step || !is_collective(op.kind)) continue;
    out.push_back(fmt::format("{} {} {} {}", name_of(op.kind), op.unit, name_of(op.phase),
                              name_of(op.reason)));
  }
  std::sort(out.begin(), out.end());
  return out;
}

const std::vector<std::string> fsdp2_step = {"all_gather layers.0 backward backward_prefetch",
                                             "all_gather layers.0 forward needed",
                                             "all_gather layers.1 backward backward_prefetch",
                                             "all_gather layers.1 forward needed",
                                             "all_gather root forward needed",
                                             "reduce_scatter layers.0 backward reduce_gradients",
                                             "reduce_scatter layers.1 backward reduce_gradients",
                                             "reduce_scatter root backward reduce_gradients"};

/// A gzip file of `head` and so many stretches of 258 spaces, which take 13 bits each (RFC 1951).
std::string packed_spaces(const std::string& head, int stretches) {
  std::string bytes("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  unsigned pending = 0;
  int bits = 0;
  const auto put = [&](unsigned bit) {
    pending |= bit << bits++;
    if (bits < 8) return;
    bytes += static_cast<char>(pending);
    pending = 0;
    bits = 0;
  };
  const auto put_code = [&](unsigned code, int count) {  // the highest bit first
    for (int k = count - 1; k >= 0; --k) put(code >> k & 1);
  };
  put_code(0b110, 3);  // the last block, of fixed codes
  for (const char c : head + " ") put_code(0x30 + static_cast<unsigned char>(c), 8);
  for (int k = 0; k < stretches; ++k) {
    put_code(0b11000101, 8);  // 258 bytes
    put_code(0, 5);           // of the one before
  }
  put_code(0, 7 + 8);  // the block's end
  return bytes;
}

TEST_CASE("a small file that unpacks to very much is refused", "[kineto]") {
  const Imports imports;
  const std::string bomb = packed_spaces(R"({"schemaVersion": 1, "traceEvents": [)", 300'000);
  const Status status = imports.import({imports.file("bomb.json.gz", bomb)}).status();
  INFO(status.message());
  CHECK(status.code() == Code::corrupt);
  CHECK(status.message().find("unpacks to more than 100 times its size") != std::string::npos);
}

}  // namespace

TEST_CASE("a recorded FSDP2 run has units, reasons, sizes and matched collectives", "[kineto]") {
  const Imports imports;
  const auto done = test::require_value(imports.import(
      {test::recorded("torch-fsdp2-0.json.gz"), test::recorded("torch-fsdp2-1.json.gz")}));
  CHECK(done.ranks == std::vector<Rank>{0, 1});
  CHECK(done.steps == 2);
  CHECK(done.collectives == 32);
  CHECK(done.matched_collectives == done.collectives);
  CHECK(done.clock_offsets == std::vector<Time>{0, 0});  // one machine, nothing contradicts it
  const auto trace = imports.trace();
  CHECK(trace.run().scheme == "fully_shard");
  for (const int step : {0, 1}) CHECK(collectives_of_step(trace, step) == fsdp2_step);
  const auto report = test::require_value(analysis::report_of(trace));
  for (const auto& row : report.communication.kinds) {
    INFO(name_of(row.kind));
    CHECK(row.bytes > Bytes{});
    CHECK(row.bus_bandwidth_bytes_per_s);
    CHECK(*row.transfer > 0);
  }
  CHECK_FALSE(report.figures.mfu);
  // What autograd calls of FSDP waits for collectives, and computes nothing.
  for (const auto& op : trace.ops()) {
    if (trace.stream(op.stream).role != StreamRole::compute) continue;
    CHECK(op.label.find("PostBackwardFunctionBackward") == std::string::npos);
  }
  CHECK(report.figures.shares.exposed > report.figures.shares.compute);
  CHECK(report.figures.step_time_steady > 0);
  CHECK(!report.figures.peaks.empty());
  for (const PeakMemory& peak : trace.peaks()) {
    Bytes sum{};
    for (const Bytes bytes : peak.by_class) sum += bytes;
    CHECK(sum == peak.reserved);
  }
}

TEST_CASE("one file of four leaves the others unknown, not zero", "[kineto]") {
  const Imports imports;
  const auto done = test::require_value(imports.import({test::recorded("torch-ddp-1.json.gz")}));
  CHECK(done.ranks == std::vector<Rank>{1});
  CHECK(done.world == 4);
  const auto trace = imports.trace();
  CHECK(trace.run().scheme == "replicate");
  const auto figures = analysis::figures_of(trace);
  REQUIRE(figures.ranks.size() == 1);
  CHECK(figures.ranks.front().rank == 1);
  for (const auto& step : figures.steps) {
    CHECK(step.min > 0);
    CHECK(step.min == step.max);
    CHECK(step.slowest == 1);
  }
  CHECK(std::any_of(done.warnings.begin(), done.warnings.end(), [](const std::string& warning) {
    return warning.find("how long they waited is not known") != std::string::npos;
  }));
}

TEST_CASE("a profile of GPUs gives every kernel and collective, once", "[kineto]") {
  for (const bool rocm : {false, true}) {
    const Imports imports;
    MadeProfile plan;
    plan.rocm = rocm;
    plan.nccl_arguments = rocm ? "host" : "kernel";
    const auto done = test::require_value(imports.import(made_files(imports, plan, {0, 0})));
    INFO("ROCm " << rocm);
    plan.world = 2;
    CHECK(done.collectives == 2 * made_collectives(plan));
    CHECK(done.matched_collectives == done.collectives);
    const auto trace = imports.trace();
    CHECK(trace.info().steps == plan.steps);
    std::int64_t kernels = 0;
    for (const auto& lane : test::require_value(trace.reader().lanes(0, 0, trace.info().end + 1))) {
      const auto role = trace.stream(lane.stream).role;
      for (std::size_t i = 0; i < lane.op.size(); ++i) {
        const auto& op = trace.op(lane.op[i]);
        if (role != StreamRole::compute) continue;
        ++kernels;
        CHECK(op.kind == OpKind::compute);
        if (op.phase != Phase::optimizer) CHECK(op.unit.starts_with("layers."));
      }
    }
    CHECK(kernels == made_kernels(plan) + plan.steps);
    CHECK(collectives_of_step(trace, 1).size() == static_cast<std::size_t>(3 * plan.layers + 2));
    CHECK(trace.run().cluster == "NVIDIA H100 80GB HBM3");
    for (const auto& op : trace.ops()) {
      if (op.kind == OpKind::all_gather) CHECK(op.bytes == Bytes{2 << 20});
      if (op.kind == OpKind::all_gather) CHECK(op.dtype == DType::bfloat16);
    }
  }
}

TEST_CASE("clocks of four ranks that are up to a second apart are aligned within 10 us",
          "[kineto][clocks]") {
  const std::vector<std::int64_t> skews = {0, 1'000'000'000, -731'204'517, 12'345};
  for (const bool sequence : {false, true}) {
    const Imports imports;
    MadeProfile plan;
    plan.sequence = sequence;
    plan.jitter = 8'000;
    const auto done = test::require_value(imports.import(made_files(imports, plan, skews)));
    CHECK(done.matched_collectives == done.collectives);
    REQUIRE(done.clock_offsets.size() == skews.size());
    for (std::size_t r = 0; r < skews.size(); ++r) {
      INFO("rank " << r << " is off by " << done.clock_offsets[r] + skews[r] << " ns");
      CHECK(std::abs(done.clock_offsets[r] + skews[r] - skews[0]) <= 10'000);
    }
  }
}

TEST_CASE("where ends of collectives differ, an import says how sure its clocks are", "[clocks]") {
  const auto warned = [](std::int64_t jitter) {
    const Imports imports;
    MadeProfile plan;
    plan.jitter = jitter;
    const auto done =
        test::require_value(imports.import(made_files(imports, plan, {0, 5'000'000})));
    return std::any_of(done.warnings.begin(), done.warnings.end(), [](const std::string& warning) {
      return warning.find("only as sure as that") != std::string::npos;
    });
  };
  CHECK_FALSE(warned(8'000));
  CHECK(warned(300'000));
}

TEST_CASE("a torch run and its like here are compared by their collectives", "[kineto]") {
  const Imports imports;
  static_cast<void>(test::require_value(imports.import(
      {test::recorded("torch-fsdp2-0.json.gz"), test::recorded("torch-fsdp2-1.json.gz")})));
  const auto trace = imports.trace();
  const auto same = test::require_value(analysis::compare(trace, trace));
  CHECK(same.matched_share() == 1.0);
}

TEST_CASE("a profile that breaks off gives what is whole, and says so", "[kineto]") {
  const Imports imports;
  const std::string whole = test::made_profile({});
  const auto done = test::require_value(
      imports.import({imports.file("cut.json", whole.substr(0, whole.size() / 2))}));
  CHECK(done.spans > 0);
  CHECK(std::any_of(done.warnings.begin(), done.warnings.end(), [](const std::string& warning) {
    return warning.find("ends in the middle") != std::string::npos;
  }));
}

TEST_CASE("a profile that contradicts itself says so", "[kineto]") {
  const Imports imports;
  const auto done = test::require_value(imports.import({imports.file("odd.json", R"({
      "distributedInfo": {"backend": "gloo", "rank": 5, "world_size": 2},
      "traceEvents": [
      {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 5},
      {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 20, "dur": -5},
      {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "dur": 5},
      {"ph": "B", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 30},
      {"ph": "E", "pid": 1, "tid": 1, "ts": 40}]})")}));
  const auto says = [&](const std::string& part) {
    return std::any_of(done.warnings.begin(), done.warnings.end(), [&](const std::string& warning) {
      return warning.find(part) != std::string::npos;
    });
  };
  CHECK(done.spans == 2);
  CHECK(says("rank 5 among 2"));
  CHECK(says("1 events end before they begin"));
  CHECK(says("2 begin-or-end events"));
  CHECK(says("1 timeless events"));
}

// The events that a profile has are spans, or stand in a warning.
TEST_CASE("of a profile's events each is shown or counted as left out", "[kineto]") {
  const Imports imports;
  const auto done = test::require_value(imports.import({imports.file("odd.json",
                                                                     "\xEF\xBB\xBF"
                                                                     R"json({
      "traceEvents": [
      {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 10, "dur": 5},
      {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": NaN, "dur": 5},
      {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 5,
       "dur": Infinity},
      {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 4, "dur": 1e300},
      {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 20},
      {"ph": "X", "cat": "cpu_op", "name": "c10d::allreduce_", "pid": 1, "tid": 1, "ts": 30,
       "dur": 5},
      {"ph": "X", "cat": "gpu_user_annotation", "name": "step", "pid": 0, "tid": 7, "ts": 30,
       "dur": 5},
      {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
       "ts": 40, "dur": 5, "args": {"correlation": 1}},
      {"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1,
       "ts": 50, "dur": 5, "args": {"correlation": 2}},
      {"ph": "X", "cat": "user_annotation", "name": "mine", "pid": 1, "tid": 9, "ts": 50,
       "dur": 5}]})json")}));
  const auto says = [&](const std::string& part) {
    return std::any_of(done.warnings.begin(), done.warnings.end(), [&](const std::string& warning) {
      return warning.find(part) != std::string::npos;
    });
  };
  CHECK(done.spans == 2);
  CHECK(says("1 events say no duration"));
  CHECK(says("3 timeless events"));
  CHECK(says("1 collectives were called, and the profile does not say when they ran"));
  CHECK(says("1 calls of c10d"));
  CHECK(says("1 annotations of devices"));
  CHECK(says("1 cuda_runtime events"));
  CHECK(says("1 waits of the host under 50 us"));
  CHECK(says("1 annotations of threads that have nothing else"));
}

TEST_CASE("of a packed profile that breaks off what can be unpacked is imported", "[kineto]") {
  const Imports imports;
  std::ifstream packed(test::recorded("torch-fsdp2-0.json.gz"), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(packed)), {});
  const auto done = test::require_value(
      imports.import({imports.file("cut.json.gz", whole.substr(0, whole.size() / 2))}));
  CHECK(done.spans > 0);
  CHECK(std::any_of(done.warnings.begin(), done.warnings.end(), [](const std::string& warning) {
    return warning.find("breaks off in the middle of its gzip stream") != std::string::npos;
  }));
  CHECK_FALSE(imports.import({imports.file("short.json.gz", whole.substr(0, 8))}).ok());
}

TEST_CASE("lists of tensors have sizes, by gloo's own events and the ranks of their group",
          "[kineto]") {
  const Imports imports;
  const auto done = test::require_value(imports.import({imports.file("lists.json", R"json({
      "distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 2, "pg_config": [
        {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": [0, 1]}]},
      "traceEvents": [
      {"ph": "X", "cat": "cpu_op", "name": "c10d::allreduce_", "pid": 1, "tid": 1, "ts": 10,
       "dur": 5, "args": {"Input Dims": [[[100]], [], [], [], [], []],
       "Input type": ["TensorList", "", "", "", "Scalar", "Scalar"]}},
      {"ph": "X", "cat": "user_annotation", "name": "gloo:all_reduce", "pid": 1, "tid": 2,
       "ts": 12, "dur": 9, "args": {"Input Dims": [[100]], "Input type": ["float"]}},
      {"ph": "X", "cat": "cpu_op", "name": "c10d::allgather_", "pid": 1, "tid": 1, "ts": 30,
       "dur": 5, "args": {"Input Dims": [[], [[50]], [], [], []],
       "Input type": ["", "TensorList", "", "Scalar", "Scalar"]}},
      {"ph": "X", "cat": "user_annotation", "name": "gloo:all_gather", "pid": 1, "tid": 2,
       "ts": 32, "dur": 9, "args": {"Input Dims": [[50]], "Input type": ["float"]}}]})json")}));
  CHECK(done.collectives == 2);
  const analysis::Trace trace = imports.trace();
  for (const auto& op : trace.ops()) {
    if (is_collective(op.kind)) CHECK(op.bytes == Bytes{400});
  }
}

TEST_CASE("files that cannot be imported are refused with a sentence", "[kineto]") {
  const Imports imports;
  const auto message = [&](const std::vector<std::string>& files) {
    const auto done = imports.import(files);
    REQUIRE_FALSE(done.ok());
    CHECK_FALSE(std::filesystem::exists(imports.path("out.tessera")));
    return done.status().message();
  };
  CHECK(message({imports.path("missing")}).find("missing") != std::string::npos);
  CHECK(message({imports.file("text", "hello")}).find("no format") != std::string::npos);
  CHECK(message({imports.file("empty", "")}).find("it is empty") != std::string::npos);
  CHECK(message({imports.file("no.json", R"({"traceEvents": []})")}).find("no operation") !=
        std::string::npos);
  const std::string one = imports.file("rank0.json", test::made_profile({}));
  const std::string same = imports.file("of_rank0_too.json", test::made_profile({}));
  CHECK(message({one, same}).find("is of rank 0") != std::string::npos);
  CHECK(message({imports.file("two.json", test::made_profile({}) + test::made_profile({}))})
            .find("behind the profile there is more") != std::string::npos);
  exchange::ImportOptions few;
  few.spans_max = 10;
  const auto done = imports.import({one}, few);
  REQUIRE_FALSE(done.ok());
  CHECK(done.status().code() == Code::out_of_memory);
}

}  // namespace tessera
