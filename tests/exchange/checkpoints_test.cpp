// SPDX-License-Identifier: Apache-2.0
// Checkpoints that PyTorch and DeepSpeed have saved become ours, bit by bit
// (tests/golden/checkpoints/record.py).
#include "tessera/exchange/checkpoints.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint_reader.h"
#include "tests/require_ok.h"
#include "tests/temporary_folder.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using exchange::import_checkpoint;

Model recorded_model() {
  const auto layer = [](int name, const char* kind, const std::string& weight, int bias) {
    return R"({"name": ")" + std::to_string(name) + R"(", "class": ")" + kind +
           R"(", "parameters": [{"name": "weight", "shape": [)" + weight +
           R"(]}, {"name": "bias", "shape": [)" + std::to_string(bias) + "]}]}";
  };
  return test::require_value(
      parse_model(R"({"tessera_model": 1, "name": "net", "root": {"class": "Net", "modules": [)" +
                      layer(0, "Linear", "7, 5", 7) + "," + layer(1, "LayerNorm", "7", 7) + "," +
                      layer(2, "Linear", "3, 7", 3) + "]}}",
                  "net"));
}

std::string recorded(const std::string& name) {
  return std::string(TESSERA_SOURCE_DIR) + "/tests/golden/checkpoints/" + name;
}

std::string contents_of(const std::string& path) {
  std::ifstream file(path + "/step-000003/rank-00000.0.safetensors", std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

TEST_CASE("a checkpoint of PyTorch or DeepSpeed becomes ours with all of AdamW's state",
          "[exchange][checkpoint]") {
  const std::string name = GENERATE(as<std::string>(), "dcp", "zero1", "zero2", "zero3");
  INFO(name);
  const Model model = recorded_model();
  const test::TemporaryFolder folder;
  const auto done =
      test::require_value(import_checkpoint(recorded(name), model, folder.path(), {}));
  CHECK(done.step == 3);
  CHECK(done.parameters == 6);
  CHECK(done.with_state == 6);
  CHECK(done.warnings.empty());
  test::require_ok(verify_checkpoint(folder.path()));
  auto reader = test::require_value(CheckpointReader::open(system_files(), folder.path()));
  std::ifstream file(recorded(name + ".json"));
  const nlohmann::json wanted = nlohmann::json::parse(file);
  for (const Parameter& parameter : model.parameters) {
    for (const auto& [end, tensor] : {std::pair{"", StateTensor::value},
                                      {".exp_avg", StateTensor::exp_avg},
                                      {".exp_avg_sq", StateTensor::exp_avg_sq}}) {
      const auto expected = wanted.at(parameter.name + end).get<std::vector<float>>();
      std::vector<float> values(expected.size());
      test::require_ok(reader.read(parameter.name, tensor, 0, Numel{0}, values));
      INFO(parameter.name << end);
      CHECK(values == expected);
    }
  }
}

TEST_CASE("what is written for torch.distributed.checkpoint is read again bit by bit",
          "[exchange][checkpoint]") {
  const Model model = recorded_model();
  const test::TemporaryFolder folder;
  const std::string first = folder.path() + "/first", second = folder.path() + "/second";
  const std::string dcp = folder.path() + "/dcp";
  test::require_ok(import_checkpoint(recorded("zero2"), model, first, {}).status());
  test::require_ok(exchange::export_dcp(first, dcp));
  CHECK(exchange::export_dcp(first, dcp).code() == Code::invalid_argument);
  const auto done = test::require_value(import_checkpoint(dcp, model, second, {}));
  CHECK(done.with_state == 6);
  CHECK(done.step == 3);
  CHECK(contents_of(first).size() > 1000);
  CHECK(contents_of(first) == contents_of(second));
}

TEST_CASE("a universal checkpoint of DeepSpeed is read again bit by bit",
          "[exchange][checkpoint]") {
  Model model = recorded_model();
  const test::TemporaryFolder folder;
  const std::string first = folder.path() + "/first", second = folder.path() + "/second";
  const std::string out = folder.path() + "/universal";
  test::require_ok(import_checkpoint(recorded("zero3"), model, first, {}).status());
  test::require_ok(exchange::export_universal(first, out, "app.model."));
  CHECK(exchange::export_universal(first, out).code() == Code::invalid_argument);
  const auto done = test::require_value(import_checkpoint(out, model, second, {}));
  CHECK(done.format == "DeepSpeed universal");
  CHECK(done.with_state == 6);
  CHECK(done.step == 3);
  auto reader = test::require_value(CheckpointReader::open(system_files(), second));
  auto wanted = test::require_value(CheckpointReader::open(system_files(), first));
  for (const Parameter& parameter : model.parameters) {
    for (const auto tensor : {StateTensor::value, StateTensor::exp_avg, StateTensor::exp_avg_sq}) {
      std::vector<float> values(static_cast<std::size_t>(parameter.numel().value));
      std::vector<float> expected(values.size());
      test::require_ok(reader.read(parameter.name, tensor, 0, Numel{0}, values));
      test::require_ok(wanted.read(parameter.name, tensor, 0, Numel{0}, expected));
      CHECK(values == expected);
    }
  }
}

TEST_CASE("DeepSpeed's own files of any stage and number of ranks are read again bit by bit",
          "[exchange][checkpoint]") {
  const int stage = GENERATE(1, 2, 3);
  const std::int64_t ranks = GENERATE(1, 2, 3, 70);  // 70: partitions without an element
  INFO("stage " << stage << ", " << ranks << " ranks");
  const Model model = recorded_model();
  const test::TemporaryFolder folder;
  const std::string first = folder.path() + "/first", second = folder.path() + "/second";
  const std::string out = folder.path() + "/zero";
  test::require_ok(import_checkpoint(recorded("zero2"), model, first, {}).status());
  const exchange::ZeroExportOptions options{.stage = stage, .ranks = ranks, .prefix = "net."};
  test::require_ok(exchange::export_zero(first, out, options));
  CHECK(exchange::export_zero(first, out, options).code() == Code::invalid_argument);
  const auto done = test::require_value(import_checkpoint(out, model, second, {}));
  CHECK(done.with_state == 6);
  CHECK(done.step == 3);
  CHECK(contents_of(first) == contents_of(second));
  CHECK(exchange::export_zero(first, out + "2", {.stage = 4}).code() == Code::invalid_argument);
}

TEST_CASE("weights in several files with an index are read again bit by bit, states included",
          "[exchange][checkpoint]") {
  const std::int64_t most = GENERATE(1, 100, 150, 1'000'000);
  const Model model = recorded_model();
  const test::TemporaryFolder folder;
  const std::string first = folder.path() + "/first", second = folder.path() + "/second";
  const std::string out = folder.path() + "/shards";
  test::require_ok(import_checkpoint(recorded("zero2"), model, first, {}).status());
  test::require_ok(exchange::export_shards(first, out, {.most = Bytes{most}}));
  std::ifstream file(out + "/model.safetensors.index.json");
  const auto index = nlohmann::json::parse(file);
  CHECK(index["metadata"]["total_size"] == 4 * 80);
  CHECK(index["weight_map"].size() == 6);
  const auto done = test::require_value(import_checkpoint(out, model, second, {}));
  CHECK(done.with_state == 6);
  CHECK(done.step == 3);
  CHECK(contents_of(first) == contents_of(second));
  const auto refused = exchange::export_shards(first, out + "2", {.dtype = DType::int64});
  CHECK(refused.code() == Code::invalid_argument);
  CHECK_FALSE(fs::exists(out + "2"));
}

TEST_CASE("what a foreign checkpoint lacks, or has otherwise, is named", "[exchange][checkpoint]") {
  const test::TemporaryFolder folder;
  Model model = recorded_model();
  const auto refusal = [&](const std::string& path,
                           const exchange::CheckpointImportOptions& options = {}) {
    const auto done = import_checkpoint(path, model, folder.path() + "/run", options);
    REQUIRE_FALSE(done.ok());
    CHECK_FALSE(fs::exists(folder.path() + "/run"));
    return done.status().message();
  };
  CHECK(refusal(folder.path()).find(".metadata") != std::string::npos);
  CHECK(refusal(recorded("dcp"), {.prefix = "ema."}).find("lacks the parameter ema.0.weight") !=
        std::string::npos);
  model.parameters[4].shape = {7, 3};
  CHECK(refusal(recorded("dcp")).find("model.2.weight is [3, 7], in net it is [7, 3]") !=
        std::string::npos);
  model.parameters[4].name = "3.weight";
  CHECK(refusal(recorded("dcp")).find("lacks the parameter model.3.weight of net") !=
        std::string::npos);
}

}  // namespace
}  // namespace tessera
