// SPDX-License-Identifier: Apache-2.0
#include "sim/validation/families.h"

#include <nlohmann/json.hpp>

#include "sim/cluster/presets.h"

namespace tessera::sim {
namespace {

using Json = nlohmann::json;

using Options = std::map<std::string, std::vector<std::string>>;

Span span_of(const Json& json) { return {json.at(0), json.at(1)}; }

std::vector<RunFamily> runs_of(const Json& json) {
  std::vector<RunFamily> out;
  for (const Json& f : json) {
    out.push_back(
        {f.at("name"), f.value("profile", ""), f.value("gpu", ""),
         f.value("clusters", std::vector<std::string>()), f.at("schemes"), span_of(f.at("ranks")),
         span_of(f.at("parameters")), span_of(f.at("sequence")), span_of(f.at("tokens")),
         f.at("checkpointing"), f.at("offload"), f.value("frozen", ""),
         f.contains("micro_batches") ? span_of(f["micro_batches"]) : Span{1, 1},
         f.value("fitted", false), f.value("options", Options()), f.at("rows"), f.at("p90")});
  }
  return out;
}

}  // namespace

Families validated() {
  // The file is part of the library, and its tests read it.
  const Json json = Json::parse(validated_families());
  const Json& unfitted = json.at("unfitted");
  Families out{runs_of(json.at("families")),
               runs_of(json.at("memory")),
               {unfitted.at("rows"), unfitted.at("p90")},
               {}};
  for (const Json& f : json.at("collectives")) {
    out.collectives.push_back({f.at("cluster"), f.at("operation"), span_of(f.at("nodes")),
                               span_of(f.at("bytes")), f.at("rows"), f.at("p90")});
  }
  return out;
}

}  // namespace tessera::sim
