// SPDX-License-Identifier: Apache-2.0
// What was asked and comes to nothing is said.
#include <catch2/catch.hpp>

#include "tests/schemes/zero3/scene.h"

namespace tessera {
namespace {

using Device = Offload::Device;

std::vector<std::string> warnings_of(const Zero3Options& options, Rank ranks = 8) {
  const Model model = test::parsed(R"({"tessera_model": 1, "name": "pair", "root":
      {"class": "Net", "modules": [
        {"name": "a", "class": "Linear", "parameters": [{"name": "w", "shape": [1000, 1000]}]},
        {"name": "b", "class": "Linear", "parameters": [{"name": "w", "shape": [1000, 1000]}]}]}
      })");
  Recording recording;
  const auto runtime = make_recording_runtime(ranks, recording);
  auto engine = zero3(*runtime, model, options);
  INFO(engine.status().message());
  REQUIRE(engine.ok());
  return (*engine)->warnings();
}

void check_said(const Zero3Options& options, const std::string& what) {
  const std::vector<std::string> warnings = warnings_of(options);
  INFO(what);
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].starts_with(what));
}

}  // namespace

TEST_CASE("offloading that moves nothing is said", "[zero3][offload]") {
  Zero3Options o;
  o.offload_optimizer.device = Device::cpu;
  o.sub_group_size = Numel{1000};  // a group each
  CHECK(warnings_of(o).empty());
  o.offload_optimizer.ratio = 0.5;
  CHECK(warnings_of(o).empty());
  o.offload_optimizer.ratio = 0.9;
  check_said(o, "offload_ratio 0.9: with 2 of the optimizer's groups (sub_group_size) all are");
  o.offload_optimizer.ratio = 0;
  check_said(o, "offload_ratio 0: all of the optimizer's groups stay on the device");
  o = {};
  o.offload_param.device = Device::cpu;
  CHECK(warnings_of(o).empty());
  o.persistence_threshold = Numel{1'000'000};
  check_said(o, "offload_param cpu: all parameters are persistent");
}

TEST_CASE("what is too small for NVMe is said", "[zero3][offload]") {
  Zero3Options o;
  o.offload_param.device = Device::nvme;
  check_said(o, "offload_param nvme: no partition has as many as the 1048576 bytes");
  o.aio.smallest = Bytes{1 << 16};
  CHECK(warnings_of(o).empty());
  o = {};
  o.offload_optimizer.device = Device::nvme;
  o.aio.smallest = Bytes{1 << 30};
  check_said(o, "offload_optimizer nvme: no group has as many as the 1073741824 bytes");
}

TEST_CASE("quantised gradients of one node and buckets of a strict run are said", "[zero3]") {
  Zero3Options o;
  o.plus_plus.quantized_gradients = true;
  check_said(o, "quantized_gradients: all 8 ranks are one node (ranks_per_node)");
  o.plus_plus.ranks_per_node = 4;
  CHECK(warnings_of(o).empty());
  o = {};
  o.prefetch_bucket = Numel{5};
  check_said(o, "prefetch_bucket 5: the strict policy");
  o.prefetch_bucket = Numel{0};
  CHECK(warnings_of(o).empty());
  o.prefetch_bucket = Numel{5};
  o.policy = Zero3Policy::compatible;
  CHECK(warnings_of(o).empty());
}

}  // namespace tessera
