// SPDX-License-Identifier: Apache-2.0
#include "tessera/sim/error_range.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/validation/families.h"

namespace tessera::sim {
namespace {

// Beyond these multiples of what was validated a run is not near it any more.
constexpr double ranks_beyond = 4, parameters_beyond = 4, tokens_beyond = 4, nodes_beyond = 2,
                 bytes_beyond = 4, micro_batches_beyond = 4;
// Differences that a sentence names.
constexpr std::size_t named = 4;

bool beyond(double value, const Span& span, double times) {
  return value > span.most * times || value * times < span.least;
}

bool among(const std::vector<std::string>& known, const std::string& value) {
  return known.empty() || std::find(known.begin(), known.end(), value) != known.end();
}

// The same of how it trains.
void add_training(const SimulatedRun& run, const RunFamily& f, std::vector<std::string>& out) {
  const auto tokens = [&](std::int64_t of_run, const Span& span, const char* what) {
    if (of_run == 0 || !beyond(static_cast<double>(of_run), span, tokens_beyond)) return;
    out.push_back(fmt::format("{} have {:.0f} to {:.0f} tokens", what, span.least, span.most));
  };
  tokens(run.sequence, f.sequence, "its sequences");
  tokens(run.tokens, f.tokens, "its micro-batches");
  if (run.micro_batches > 0 &&
      beyond(static_cast<double>(run.micro_batches), f.micro_batches, micro_batches_beyond)) {
    out.push_back(fmt::format("its steps have {:.0f} to {:.0f} micro-batches",
                              f.micro_batches.least, f.micro_batches.most));
  }
  if (!run.checkpointing.empty() && !among(f.checkpointing, run.checkpointing)) {
    out.push_back(fmt::format("its checkpointing is {}", fmt::join(f.checkpointing, " or ")));
  }
  if (run.offload != f.offload) {
    out.push_back(fmt::format("it offloads {}", f.offload.empty() ? "nothing" : f.offload));
  }
  if (run.frozen != f.frozen) {
    out.push_back(f.frozen.empty() ? "all its parameters are trained"
                                   : fmt::format("it trains by {}", f.frozen));
  }
  for (const auto& [name, value] : run.options) {
    const auto seen = f.options.find(name);
    // An option of another scheme is another option.
    if (seen == f.options.end() || !among(f.schemes, run.scheme) || among(seen->second, value))
      continue;
    out.push_back(fmt::format("its {} is {}", name, fmt::join(seen->second, " or ")));
  }
  out.insert(out.end(), run.beside.begin(), run.beside.end());
}

// Of less than ten the ninth in ten is the worst.
std::string all_or_most(std::int64_t rows, const char* rows_of) {
  if (rows == 1) return fmt::format("for the only one of {} of", rows_of);
  return rows < 10 ? fmt::format("for all {} {} of", rows, rows_of)
                   : fmt::format("for 9 in 10 of {} {} of", rows, rows_of);
}

// What keeps a run from being one of the family's, worst first; empty: nothing.
std::vector<std::string> differences(const SimulatedRun& run, const RunFamily& f) {
  std::vector<std::string> out;
  const auto parameters = static_cast<double>(run.parameters.value);
  if (!f.gpu.empty() && run.gpu != f.gpu) {
    out.push_back(fmt::format("its GPUs are {}", f.gpu));
  } else if (!among(f.clusters, run.cluster)) {
    out.push_back(fmt::format("its cluster is {}", fmt::join(f.clusters, " or ")));
  }
  if (!f.profile.empty() && run.profile != f.profile) {
    out.push_back(fmt::format("its profile is {}", f.profile));
  }
  if (!among(f.schemes, run.scheme)) {
    out.push_back(fmt::format("its scheme is {}", fmt::join(f.schemes, " or ")));
  }
  if (beyond(run.ranks, f.ranks, ranks_beyond)) {
    out.push_back(fmt::format("it has {:.0f} to {:.0f} ranks", f.ranks.least, f.ranks.most));
  }
  if (beyond(parameters, f.parameters, parameters_beyond)) {
    out.push_back(
        fmt::format("it has {:.2g} to {:.2g} parameters", f.parameters.least, f.parameters.most));
  }
  add_training(run, f, out);
  return out;
}

// The sentence about the family that differs least from what is asked for.
template <class Family, class Differences>
ErrorRange nearest(const std::vector<Family>& families, const char* number,
                   const Differences& differences_of, const char* rows_of) {
  const Family* found = nullptr;
  std::vector<std::string> apart;
  for (const Family& family : families) {
    std::vector<std::string> here = differences_of(family);
    if (found != nullptr && here.size() >= apart.size()) continue;
    found = &family;
    apart = std::move(here);
  }
  if (apart.size() > named) {
    apart.resize(named);
    apart.emplace_back("more differs");
  }
  if (found == nullptr) return {.text = fmt::format("{}: nothing was ever validated", number)};
  ErrorRange range{.near = apart.empty(), .p90 = found->p90, .text = {}};
  std::string name;
  if constexpr (requires { found->name; }) {
    name = found->name + (found->fitted ? ", which its profile was fitted to" : "");
  } else {
    name = fmt::format("{} on {}", found->operation, found->cluster);
  }
  const std::string seen =
      fmt::format("{:.{}f} % {} {}", 100 * found->p90, found->p90 < 0.01 ? 1 : 0,
                  all_or_most(found->rows, rows_of), name);
  range.text = range.near ? fmt::format("{} within {}", number, seen)
                          : fmt::format(
                                "{}: nothing near was ever validated; the nearest is within {}, "
                                "but {}",
                                number, seen, fmt::join(apart, " and "));
  return range;
}

}  // namespace

std::string to_json(const ErrorRange& range) {
  return nlohmann::ordered_json{{"near", range.near}, {"p90", range.p90}, {"text", range.text}}
      .dump();
}

ErrorRange step_time_error(const SimulatedRun& run) {
  return nearest(
      validated().step_times, "step time",
      [&](const RunFamily& family) { return differences(run, family); }, "runs");
}

ErrorRange calibrated_error(std::int64_t runs, double p90) {
  return {.near = true,
          .p90 = p90,
          .text = fmt::format("step time within {:.1f} % for 9 in 10 of the {} runs that the "
                              "profile was calibrated on",
                              100 * p90, runs)};
}

ErrorRange planned_memory_error() {
  return {.near = true,
          .p90 = 0,
          .text = "peak memory to the byte: what tessera train itself asks for on CPUs"};
}

ErrorRange memory_error(const SimulatedRun& run) {
  SimulatedRun held = run;
  if (!run.memory_profile.empty()) held.profile = run.memory_profile;
  return nearest(
      validated().memory, "peak memory",
      [&](const RunFamily& family) { return differences(held, family); }, "runs");
}

ErrorRange collective_error(const std::string& cluster, const CollectiveShape& shape, Bytes least,
                            Bytes most) {
  const auto same = [&](const CollectiveFamily& f) {  // but for what name_unless_changed adds
    return cluster == f.cluster || cluster.starts_with(f.cluster + ",");
  };
  const auto differences_of = [&](const CollectiveFamily& f) {
    std::vector<std::string> out;
    if (f.cluster != cluster) {
      out.push_back(fmt::format("its cluster is {}{}", f.cluster, same(f) ? " as shipped" : ""));
    }
    if (f.operation != name_of(shape.kind)) {
      out.push_back(fmt::format("its operation is {}", f.operation));
    }
    // Between two nodes is a network, within one there is none.
    const bool alike = (shape.nodes == 1) == (f.nodes.most == 1);
    if (!alike || beyond(shape.nodes, f.nodes, nodes_beyond)) {
      out.push_back(f.nodes.most == 1 ? std::string("it is of one node")
                                      : fmt::format("it is of {:.0f} to {:.0f} nodes",
                                                    f.nodes.least, f.nodes.most));
    }
    if (static_cast<double>(least.value) * bytes_beyond < f.bytes.least ||
        static_cast<double>(most.value) > f.bytes.most * bytes_beyond) {
      out.push_back(fmt::format("it has {:.0f} to {:.0f} bytes", f.bytes.least, f.bytes.most));
    }
    return out;
  };
  // A changed machine is nearer to itself than to others that also differ in one way.
  std::vector<CollectiveFamily> families = validated().collectives;
  std::stable_partition(families.begin(), families.end(), same);
  return nearest(families, "time", differences_of, "rows");
}

std::string name_unless_changed(const Cluster& cluster) {
  return cluster.shipped ? cluster.name : cluster.name + ", changed";
}

std::string name_unless_changed(const StackProfile& profile) {
  const auto shipped = load_profile(profile.name);
  const bool same = shipped.ok() && to_json(*shipped) == to_json(profile);
  return same ? profile.name : profile.name + ", changed";
}

}  // namespace tessera::sim
