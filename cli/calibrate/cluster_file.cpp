// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate/cluster_file.h"

#include <cmath>

namespace tessera::cli {
namespace {

using Json = nlohmann::ordered_json;

double rounded(double factor) { return std::round(factor * 1e4) / 1e4; }

Json measured_json(const sim::Cluster& fitted) {
  Json out = Json::array();
  for (const sim::MeasuredFactors& found : fitted.measured) {
    Json bytes = Json::array(), factors = Json::array();
    for (std::size_t k = 0; k < found.bytes.size(); ++k) {
      bytes.push_back(found.bytes[k].value);
      factors.push_back(rounded(found.factors[k]));
    }
    out.push_back({{"operation", name_of(found.kind)},
                   {"ranks", found.ranks},
                   {"nodes", found.nodes},
                   {"bytes", bytes},
                   {"factors", factors}});
  }
  return out;
}

}  // namespace

void put_collectives(Json& json, const sim::Cluster& fitted, const std::string& source) {
  json["collective_launch_ns"] = fitted.collective_launch_ns;
  json["collective_floor_ns"] = fitted.collective_floor_ns;
  json["intra_node"].update(
      {{"efficiency", fitted.intra_node.efficiency}, {"sqrt_ns", fitted.intra_node.sqrt_ns}});
  const sim::Link& link = fitted.inter_node;
  json["inter_node"].update({{"efficiency", link.efficiency},
                             {"latency_ns", link.latency_ns},
                             {"launch_ns", link.launch_ns},
                             {"sqrt_ns", link.sqrt_ns}});
  if (fitted.nvls.share > 0) {
    json["nvls"] = {{"share", fitted.nvls.share}, {"sqrt_ns", fitted.nvls.sqrt_ns}};
  }
  json["measured"] = measured_json(fitted);
  json["sources"]["measured"] = source;
}

void put_kernels(Json& json, const sim::Gpu& fitted, const std::string& source) {
  Json& gpu = json["gpu"];
  gpu["multiprocessors"] = fitted.multiprocessors;
  const sim::MatmulCurve curve = fitted.matmul.value_or(sim::MatmulCurve{});
  gpu["matmul"] = {{"start_ns", curve.start_ns},
                   {"fill_ns", curve.fill_ns},
                   {"whole_waves", curve.whole_waves},
                   {"tile_256x128", curve.tile_efficiency[0]},
                   {"tile_128x128", curve.tile_efficiency[1]},
                   {"tile_256x64", curve.tile_efficiency[2]},
                   {"tile_128x64", curve.tile_efficiency[3]},
                   {"power_loss", curve.power_loss},
                   {"power_flops", curve.power_flops},
                   {"sustained", curve.sustained}};
  gpu["attention"] = Json::object();
  for (const sim::AttentionCurve& kernel : fitted.attention) {
    gpu["attention"][kernel.name] = {{"start_ns", kernel.start_ns},
                                     {"block_ns", kernel.block_ns},
                                     {"forward", kernel.forward},
                                     {"narrow", kernel.narrow},
                                     {"backward", kernel.backward}};
  }
  json["sources"]["gpu.matmul"] = source;
}

}  // namespace tessera::cli
