// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <filesystem>

#include "tessera/checkpoint.h"
#include "tessera/exchange/checkpoints.h"
#include "tessera/model.h"
#include "tests/fuzz/readers.h"
#include "tests/require_ok.h"

namespace tessera::test {
namespace {

namespace fs = std::filesystem;

/// The net of tests/golden/checkpoints/record.py.
Model checkpointed_model() {
  const auto layer = [](int name, const char* kind, const std::string& weight, int bias) {
    return R"({"name": ")" + std::to_string(name) + R"(", "class": ")" + kind +
           R"(", "parameters": [{"name": "weight", "shape": [)" + weight +
           R"(]}, {"name": "bias", "shape": [)" + std::to_string(bias) + "]}]}";
  };
  return require_value(
      parse_model(R"({"tessera_model": 1, "name": "net", "root": {"class": "Net", "modules": [)" +
                      layer(0, "Linear", "7, 5", 7) + "," + layer(1, "LayerNorm", "7", 7) + "," +
                      layer(2, "Linear", "3, 7", 3) + "]}}",
                  "net"));
}

FuzzedReader checkpoint_reader(std::string name, const std::string& path) {
  const auto read = [](const std::string& folder, std::size_t, bool whole) -> Status {
    const std::string out = folder + "/out";
    static const Model model = checkpointed_model();
    const auto done = exchange::import_checkpoint(folder, model, out, {});
    CHECK(fs::exists(out) == done.ok());
    if (!done.ok()) {
      fs::remove_all(out);
      return done.status();
    }
    if (whole) require_ok(verify_checkpoint(out));
    fs::remove_all(out);
    return {};
  };
  return {std::move(name), {files_at(path)}, read};
}

}  // namespace

std::vector<FuzzedReader> checkpoint_readers(const std::string& scratch) {
  const std::string golden = std::string(TESSERA_SOURCE_DIR) + "/tests/golden/checkpoints/";
  const std::string own = scratch + "/own", dcp = scratch + "/dcp", zero = scratch + "/zero",
                    universal = scratch + "/universal", shards = scratch + "/shards";
  require_ok(exchange::import_checkpoint(golden + "zero2", checkpointed_model(), own, {}).status());
  require_ok(exchange::export_dcp(own, dcp));
  require_ok(exchange::export_zero(own, zero, {.stage = 2, .ranks = 2}));
  require_ok(exchange::export_universal(own, universal));
  require_ok(exchange::export_shards(own, shards, {.most = Bytes{150}}));
  return {checkpoint_reader("dcp", dcp),
          checkpoint_reader("dcp_of_torch", golden + "dcp"),
          checkpoint_reader("zero", zero),
          checkpoint_reader("zero_of_deepspeed", golden + "zero3/global_step3"),
          checkpoint_reader("universal", universal),
          checkpoint_reader("safetensors", shards)};
}

}  // namespace tessera::test
