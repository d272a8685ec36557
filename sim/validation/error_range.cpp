// SPDX-License-Identifier: Apache-2.0
#include "tessera/sim/error_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/cluster/presets.h"

namespace tessera::sim {
namespace {

// Beyond these multiples of what was validated a run is not near it any more.
constexpr double ranks_beyond = 4, parameters_beyond = 4;

struct Family {
  std::string name, profile, gpu;
  std::vector<std::string> schemes;
  double ranks_min = 1, ranks_max = 1, parameters_min = 1, parameters_max = 1;
  std::int64_t rows = 0;
  double p90 = 0;
};

std::vector<Family> families() {
  std::vector<Family> out;
  const auto json = nlohmann::json::parse(validated_families());
  for (const auto& f : json.at("families")) {
    out.push_back({f.at("name"), f.at("profile"), f.at("gpu"), f.at("schemes"), f.at("ranks").at(0),
                   f.at("ranks").at(1), f.at("parameters").at(0), f.at("parameters").at(1),
                   f.at("rows"), f.at("p90")});
  }
  return out;
}

// What keeps a run from being one of the family's, worst first; empty: nothing.
std::vector<std::string> differences(const SimulatedRun& run, const Family& f) {
  std::vector<std::string> out;
  const auto ranks = static_cast<double>(run.ranks);
  const auto parameters = static_cast<double>(run.parameters.value);
  if (!run.gpu.starts_with(f.gpu)) out.push_back(fmt::format("its GPUs are {}", f.gpu));
  if (run.profile != f.profile) out.push_back(fmt::format("its profile is {}", f.profile));
  if (std::find(f.schemes.begin(), f.schemes.end(), run.scheme) == f.schemes.end()) {
    out.push_back(fmt::format("its schemes are {}", fmt::join(f.schemes, ", ")));
  }
  if (ranks > f.ranks_max * ranks_beyond || ranks * ranks_beyond < f.ranks_min) {
    out.push_back(fmt::format("it has {:.0f} to {:.0f} ranks", f.ranks_min, f.ranks_max));
  }
  if (parameters > f.parameters_max * parameters_beyond ||
      parameters * parameters_beyond < f.parameters_min) {
    out.push_back(
        fmt::format("it has {:.2g} to {:.2g} parameters", f.parameters_min, f.parameters_max));
  }
  return out;
}

}  // namespace

std::optional<ErrorRange> error_range(const SimulatedRun& run) {
  const Family* nearest = nullptr;
  std::vector<std::string> apart;
  const std::vector<Family> all = families();
  for (const Family& family : all) {
    std::vector<std::string> here = differences(run, family);
    if (nearest != nullptr && here.size() >= apart.size()) continue;
    nearest = &family;
    apart = std::move(here);
  }
  if (nearest == nullptr) return std::nullopt;
  ErrorRange range{.near = apart.empty(), .p90 = nearest->p90, .text = {}};
  const std::string seen = fmt::format("{:.0f} % for 9 in 10 of {} runs of {}", 100 * nearest->p90,
                                       nearest->rows, nearest->name);
  range.text = range.near ? fmt::format("step time within {}", seen)
                          : fmt::format(
                                "nothing near was ever validated; the nearest is within "
                                "{}, but {}",
                                seen, fmt::join(apart, " and "));
  return range;
}

}  // namespace tessera::sim
