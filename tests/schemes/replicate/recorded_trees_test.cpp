// SPDX-License-Identifier: Apache-2.0
// replicate against DDP of torch 2.15 on random trees: frozen and unused parameters, several
// dtypes, no_sync, static graphs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "tessera/replicate.h"
#include "tests/schemes/recorded_torch.h"

namespace tessera {
namespace {

// The parameters of a bucket, which the copies into it name.
class BucketLines {
 public:
  std::string operator()(const Recording& recording, const Record& r) {
    if (r.kind != Record::Kind::op) return "";
    if (r.cause.reason == Reason::copy_in) {
      if (const auto* work = std::get_if<Compute>(&r.op.what)) note(r, work->writes.at(0));
      if (const auto* copy = std::get_if<Copy>(&r.op.what)) note(r, copy->pieces.at(0).to);
      return "";
    }
    if (const auto* mark = std::get_if<Mark>(&r.op.what)) {
      return mark->kind == marks::gradient_ready ? fmt::format("G {}", r.cause.module) : "";
    }
    if (const auto* o = std::get_if<AllReduce>(&r.op.what)) {
      const auto& buffer = recording.buffers[o->input.buffer.index()];
      if (buffer.memory_class != MemoryClass::reduce_buffers) return "";
      std::string line = fmt::format("AR {} {}", o->input.numel.value, name_of(o->input.dtype));
      for (const auto& [offset, name] : inside_[o->input.buffer]) line += " " + name;
      return line;
    }
    if (!std::holds_alternative<Compute>(r.op.what) || r.cause.module.empty() ||
        r.cause.reason == Reason::accumulate) {
      return "";
    }
    return fmt::format("{} {}", r.cause.phase == Phase::backward ? "B" : "F", r.cause.module);
  }

 private:
  void note(const Record& r, const View& to) {
    inside_[to.buffer][to.first.value] = std::string(r.cause.module);
  }
  std::map<BufferId, std::map<std::int64_t, std::string>> inside_;
};

TEST_CASE("replicate does what DDP of torch 2.15 did with random trees, line by line",
          "[replicate][golden]") {
  for (const test::RunJson& run : test::recorded_runs("ddp.json")) {
    const test::RunJson& given = run["options"];
    const ReplicateOptions options{
        .bucket_cap = Bytes{given["bucket_cap"].get<std::int64_t>()},
        .find_unused_parameters = given["find_unused_parameters"],
        .gradient_as_bucket_view = given["gradient_as_bucket_view"],
        .static_graph = given["static_graph"],
        .own_dtypes = run["tree"].dump().find("bfloat16") != std::string::npos};
    const auto engine = [&](Runtime& runtime, const Model& model) {
      return replicate(runtime, model, options);
    };
    test::require_equal_lines(run, test::play_again(run, engine, BucketLines{}));
  }
}

TEST_CASE("a model of several dtypes is replicated in one with a warning, or in its own",
          "[replicate]") {
  const Model model = test::require_value(parse_model(
      R"({"tessera_model":1,"name":"two","root":{"class":"Net","modules":[
          {"name":"a","class":"Linear","parameters":[{"name":"w","shape":[4,4]}]},
          {"name":"b","class":"Linear","parameters":[{"name":"w","shape":[4],"dtype":"bfloat16"}]}
      ]}})",
      "two"));
  Recording recording;
  const auto runtime = make_recording_runtime(2, recording);
  const auto one = test::require_value(replicate(*runtime, model, {}));
  REQUIRE(one->warnings().size() == 1);
  CHECK(one->warnings()[0] ==
        "a.w is float32 and b.w is bfloat16: here both are float32; own_dtypes keeps them, as DDP "
        "does");
  const auto other = make_recording_runtime(2, recording);
  CHECK(test::require_value(replicate(*other, model, {.own_dtypes = true}))->warnings().empty());
}

}  // namespace
}  // namespace tessera
