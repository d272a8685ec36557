// SPDX-License-Identifier: Apache-2.0
// Weights leave engines and checkpoints as one safetensors file, and come back.
#include "tessera/weights.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/numbers/number.h"
#include "tessera/safetensors.h"
#include "tests/checkpoint/every_scheme.h"
#include "tests/checkpoint/scene.h"
#include "tests/training/reference/real_models.h"

namespace tessera {
namespace {

using test::require_ok;
using test::require_value;
using test::SimulatedRun;

std::vector<float> floats_of(SafetensorsFile& file, const std::string& name) {
  const StoredTensor* const tensor = file.find(name);
  REQUIRE(tensor != nullptr);
  REQUIRE(tensor->dtype == DType::float32);
  std::vector<float> values(static_cast<std::size_t>(tensor->numel().value));
  require_ok(file.read(*tensor, Numel{0}, std::as_writable_bytes(std::span(values))));
  return values;
}

// What transformers does with a model that is too large for one file.
std::string in_two_files(const std::string& folder, SafetensorsFile& whole) {
  nlohmann::json index{{"metadata", {{"total_size", 1}}}, {"weight_map", nlohmann::json::object()}};
  for (std::size_t part = 0; part < 2; ++part) {
    const std::string name = "model-0000" + std::to_string(part + 1) + "-of-00002.safetensors";
    std::vector<StoredTensor> tensors;
    for (std::size_t t = part; t < whole.tensors().size(); t += 2) {
      tensors.push_back(whole.tensors()[t]);
      index["weight_map"][tensors.back().name] = name;
    }
    auto out = require_value(SafetensorsWriter::create(folder + "/" + name, tensors, {}));
    for (const StoredTensor& tensor : tensors) {
      const auto values = floats_of(whole, tensor.name);
      require_ok(out.write(tensor.name, Numel{0}, std::as_bytes(std::span(values))));
    }
    require_ok(out.finish());
  }
  const std::string path = folder + "/model.safetensors.index.json";
  std::ofstream(path) << index.dump();
  return path;
}

TEST_CASE("weights in several files are found by their index", "[checkpoint]") {
  const Model model = test::tiny_gpt2();
  const test::TemporaryFolder folder;
  const std::string direct = folder.path() + "/direct.safetensors";
  SimulatedRun run(model, ReplicateOptions{}, 1, 5);
  run.step();
  require_ok(export_weights(run.engine(), direct, {}));
  auto whole = require_value(SafetensorsFile::open(direct));
  const std::string index = in_two_files(folder.path(), whole);
  SimulatedRun loaded(model, FullyShardOptions{}, 2, 5);
  require_ok(import_weights(loaded.engine(), index));
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    CHECK(test::same_bits(loaded.contents().values[p], run.contents().values[p]));
  }
  const auto refusal = [&](const std::string& text) {
    std::ofstream(index) << text;
    return import_weights(loaded.engine(), index).message();
  };
  CHECK(refusal("{}").find("has no weight_map") != std::string::npos);
  CHECK(refusal(R"({"weight_map": {"a": "../b"}})").find("in no file of this folder") !=
        std::string::npos);
  CHECK(refusal(R"({"weight_map": {"a": "model-00001-of-00002.safetensors"}})")
            .find("has no tensor \"a\"") != std::string::npos);
  run.finish();
  loaded.finish();
}

TEST_CASE("weights that are no finite numbers are refused with their place", "[checkpoint]") {
  const Model model = test::tiny_gpt2();
  const test::TemporaryFolder folder;
  const std::string good = folder.path() + "/good.safetensors";
  SimulatedRun run(model, FullyShardOptions{}, 2, 5);
  const auto infinity = std::numeric_limits<float>::infinity();
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16}) {
    require_ok(export_weights(run.engine(), good, {.dtype = dtype}));
    auto whole = require_value(SafetensorsFile::open(good));
    for (const float value : {std::nanf(""), infinity, -infinity}) {
      const std::string bad = folder.path() + "/bad.safetensors";
      auto out = require_value(SafetensorsWriter::create(bad, whole.tensors(), {}));
      for (const StoredTensor& tensor : whole.tensors()) {
        std::vector<std::byte> bytes(static_cast<std::size_t>((tensor.end - tensor.begin).value));
        require_ok(whole.read(tensor, Numel{0}, bytes));
        if (tensor.name == "ln_f.weight") store_number(bytes, dtype, 3, value);
        require_ok(out.write(tensor.name, Numel{0}, bytes));
      }
      require_ok(out.finish());
      const Status refused = import_weights(run.engine(), bad);
      INFO(name_of(dtype) << " " << value << ": " << refused.message());
      CHECK(refused.code() == Code::corrupt);
      CHECK(refused.message().find("bad.safetensors: tensor ln_f.weight has ") !=
            std::string::npos);
      CHECK(refused.message().find(" at place 3: it is damaged") != std::string::npos);
    }
    require_ok(import_weights(run.engine(), good));
  }
  run.finish();
}

TEST_CASE("weights leave every scheme and enter every other, through an engine or a checkpoint",
          "[checkpoint]") {
  const Model model = test::tiny_gpt2();
  const Rank ranks = GENERATE(1, 3, 4);
  const auto which = GENERATE(range(std::size_t{0}, std::size_t{14}));
  const std::vector<std::string> units = {"h.0", "h.1"};
  INFO("scheme " << which << " on " << ranks << " ranks");
  const test::TemporaryFolder folder;
  const std::string direct = folder.path() + "/direct.safetensors";
  const std::string indirect = folder.path() + "/indirect.safetensors";
  SimulatedRun run(model, test::every_scheme(units, ranks)[which], ranks, 5);
  run.step();
  require_ok(export_weights(run.engine(), direct, {.staging = Bytes{64}}));
  run.save(folder.path(), 1);
  require_ok(export_checkpoint(folder.path(), indirect));
  const test::Contents contents = run.contents();
  auto one = require_value(SafetensorsFile::open(direct));
  auto other = require_value(SafetensorsFile::open(indirect));
  REQUIRE(one.tensors().size() == model.parameters.size());
  REQUIRE(other.tensors().size() == model.parameters.size());
  CHECK(one.find("lm_head.weight") == nullptr);  // tied: the same tensor
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    const std::string& name = model.parameters[p].name;
    INFO(name);
    CHECK(one.find(name)->shape == model.parameters[p].shape);
    CHECK(test::same_bits(floats_of(one, name), contents.values[p]));
    CHECK(test::same_bits(floats_of(other, name), contents.values[p]));
  }
  SimulatedRun loaded(model, test::every_scheme(units, 2)[(which + 3) % 14], 2, 5);
  require_ok(import_weights(loaded.engine(), direct));
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    CHECK(test::same_bits(loaded.contents().values[p], contents.values[p]));
  }
  run.finish();
  loaded.step();
  loaded.finish();
}

TEST_CASE("halves are written and read", "[checkpoint]") {
  const Model model = test::mlp_chain();
  const test::TemporaryFolder folder;
  const DType dtype = GENERATE(DType::bfloat16, DType::float16);
  const std::string path = folder.path() + "/half.safetensors";
  SimulatedRun run(model, Zero3Options{}, 2);
  require_ok(export_weights(run.engine(), path, {.dtype = dtype}));
  const test::Contents before = run.contents();
  require_ok(import_weights(run.engine(), path));
  const test::Contents rounded = run.contents();
  for (std::size_t p = 0; p < model.parameters.size(); ++p) {
    for (std::size_t i = 0; i < rounded.values[p].size(); ++i) {
      CHECK(std::abs(rounded.values[p][i] - before.values[p][i]) < 0.01F);
    }
  }
  require_ok(export_weights(run.engine(), path, {}));
  require_ok(import_weights(run.engine(), path));
  test::check_same(run.contents(), rounded, model);
}

// Of zeros, but for the bytes of the last one.
Status import_of(std::vector<StoredTensor> tensors, std::byte of_last = {}) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path() + "/x.safetensors";
  auto writer = require_value(SafetensorsWriter::create(path, tensors, {}));
  for (const StoredTensor& tensor : tensors) {
    std::int64_t numel = 1;
    for (const auto size : tensor.shape) numel *= size;
    const auto bytes = static_cast<std::size_t>(bytes_of(Numel{numel}, tensor.dtype).value);
    const std::byte byte = &tensor == &tensors.back() ? of_last : std::byte{};
    require_ok(writer.write(tensor.name, Numel{0}, std::vector<std::byte>(bytes, byte)));
  }
  require_ok(writer.finish());
  SimulatedRun run(test::repeated(), Zero3Options{}, 2);
  const test::Contents before = run.contents();
  const Status status = import_weights(run.engine(), path);
  if (!status.ok()) test::check_same(run.contents(), before, test::repeated());
  const std::string message = status.message();
  const std::size_t colon = message.find(": ");
  return status.ok() ? status : Status(status.code(), message.substr(colon + 2));
}

TEST_CASE("weights of another model are refused, naming the tensor", "[checkpoint]") {
  std::vector<StoredTensor> tensors;
  for (const Parameter& p : test::repeated().parameters) {
    tensors.push_back({.name = p.name, .dtype = DType::bfloat16, .shape = p.shape});
  }
  require_ok(import_of(tensors));
  auto with = [&](auto change) {
    auto changed = tensors;
    change(changed);
    return import_of(changed).message();
  };
  CHECK(with([](auto& t) { t.pop_back(); }) == "lacks the tensor out.weight of repeated");
  CHECK(with([](auto& t) {
          t[0].shape = {3, 4};
        }) == "tensor in.weight is [3, 4], in repeated it is [4, 3]");
  CHECK(with([](auto& t) { t[0].dtype = DType::int32; }) ==
        "tensor in.weight is int32: convert it to F32, BF16 or F16");
  CHECK(with([](auto& t) {
          t.push_back({.name = "more", .dtype = DType::float32, .shape = {1}});
        }) == "has a tensor more, which repeated has not");
}

TEST_CASE("two tensors of one parameter are refused, unless they are alike", "[checkpoint]") {
  std::vector<StoredTensor> tensors;
  for (const Parameter& p : test::repeated().parameters) {
    tensors.push_back({.name = p.name, .dtype = DType::bfloat16, .shape = p.shape});
  }
  tensors.push_back(tensors.front());
  tensors.back().name = "transformer." + tensors.front().name;
  require_ok(import_of(tensors));
  CHECK(import_of(tensors, std::byte{1}).message() ==
        "tensors in.weight and transformer.in.weight differ, but are one parameter of repeated: "
        "remove one, or say tie_word_embeddings false in its config.json if both count");
}

}  // namespace
}  // namespace tessera
