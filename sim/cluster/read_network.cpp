// SPDX-License-Identifier: Apache-2.0
#include "sim/cluster/read_network.h"

#include "sim/cluster/object_reader.h"

namespace tessera::sim {

Link read_link(const nlohmann::json& json, const std::string& where, Status& status) {
  ObjectReader reader(json, where, {"bytes_per_s", "efficiency", "latency_ns"}, status);
  Link link;
  link.bytes_per_s = reader.rate("bytes_per_s");
  link.efficiency = reader.share("efficiency");
  link.latency_ns = reader.nanoseconds("latency_ns");
  return link;
}

}  // namespace tessera::sim
